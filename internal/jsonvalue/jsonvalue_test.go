package jsonvalue_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

var accepted = []string{
	`0`, `null`, `true`, `false`, `""`, `{}`, `[]`, ` [ 1 , {"a" : "b"} ] `, `-0`, `-0.0e0`, `1.5E+3`,
	`"\u00e9"`, `"\ud83d\ude00"`, `"\\u0000"`, `"😀"`, `"` + "\u007f\u2028" + `"`, `{"":1,"":2}`,
	`1e131071`, `1e-16383`, `0e131072`, `0e1000000`, `12345678901234567890123456789.5`,
	strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	`"` + strings.Repeat("x", jsonvalue.MaxSize-2) + `"`,
	strings.Repeat("9", 131072),
}

var refused = []string{
	``, ` `, `{`, `[1,]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `nul`, `True`, `1 2`, `]`, `[1}`, `01`, `1.`, `.5`, `+1`, `-`, `1e`, `1e+`,
	`"`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf{}", "\"a\x00b\"", "\x00", `"\u0000"`, `{"\u0000":1}`,
	`"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\u0041"`,
	`1e131072`, `10e131071`, `1e-16384`, `0e-16384`, `1.` + strings.Repeat("0", 16384), `1e99999999999999999999`, strings.Repeat("9", 131073),
	strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	`"` + strings.Repeat("x", jsonvalue.MaxSize-1) + `"`,
	`[` + strings.Repeat(`1e131071,`, 200) + `0]`,
}

func TestCheck(t *testing.T) {
	for _, doc := range accepted {
		if err := jsonvalue.Check([]byte(doc)); err != nil {
			t.Errorf("%.40q: %v", doc, err)
		}
	}
	for _, doc := range refused {
		if jsonvalue.Check([]byte(doc)) == nil {
			t.Errorf("%.40q is accepted", doc)
		}
	}
}

// Wherever a byte is in a string, it is judged by itself.
func TestCheckStrings(t *testing.T) {
	const around = "0123456789ghijklm"
	for c := range 256 {
		fine := ' ' <= c && c < 0x80 && c != '"' && c != '\\'
		for at := range len(around) {
			doc := []byte(`"` + around[:at] + string([]byte{byte(c)}) + around[at:] + `"`)
			if err := jsonvalue.Check(doc); (err == nil) != fine {
				t.Errorf("%q: %v", doc, err)
			}
		}
	}
}

// What is accepted is JSON to encoding/json too.
func FuzzCheck(f *testing.F) {
	for _, doc := range append(accepted, refused...) {
		if len(doc) < 1<<10 {
			f.Add([]byte(doc))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := jsonvalue.Check(doc)
		if err == nil && !json.Valid(doc) {
			t.Errorf("%q is not JSON", doc)
		}
		if err != nil && json.Valid(doc) && plain(doc) {
			t.Errorf("%q: %v", doc, err)
		}
	})
}

// plain reports whether doc has nothing in it that JSON allows and a store does not.
func plain(doc []byte) bool {
	for _, c := range doc {
		if c >= 0x80 || c == '\\' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

func BenchmarkCheck(b *testing.B) {
	doc := []byte(`{"messages":["` + strings.Repeat("the quick brown fox ", 200) + `"],"n":[1,2.5,-3]}`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if err := jsonvalue.Check(doc); err != nil {
			b.Fatal(err)
		}
	}
}
