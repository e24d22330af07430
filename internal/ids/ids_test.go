package ids_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/ids"
)

func TestCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(
			rapid.String(), rapid.StringN(60, 70, -1), rapid.StringMatching(`[ -~]{0,70}`), rapid.StringN(500, 520, -1),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		).Draw(t, "id")
		good := len(id) <= ids.MaxSize && utf8.ValidString(id) && !strings.Contains(id, "\x00")
		if err := ids.CheckOptional("id", id); (err == nil) != good {
			t.Errorf("optional %q: %v", id, err)
		}
		if err := ids.Check("id", id); (err == nil) != (good && id != "") {
			t.Errorf("%q: %v", id, err)
		}
	})
}

func TestCheckText(t *testing.T) {
	for text, good := range map[string]bool{
		"": true, "abc": true, "abcd": false, "é": true, "éé": false, "\x7f": true, "\x80": false, "a\x00": false,
	} {
		if err := ids.CheckText("text", text, 3); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
