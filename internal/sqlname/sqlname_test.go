package sqlname_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlname"
)

func TestParse(t *testing.T) {
	for prefix, want := range map[string][3]string{
		"":         {`"holdfast_turns"`, `"holdfast_turns"`, "holdfast_turns"},
		"a.B_":     {`"a"."B_turns"`, `"B_turns"`, "a.B_turns"},
		"_1":       {`"_1turns"`, `"_1turns"`, "_1turns"},
		"select.x": {`"select"."xturns"`, `"xturns"`, "select.xturns"},
	} {
		p, err := sqlname.Parse(prefix, "turns")
		if err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
		if got := [3]string{p.Table("turns"), p.Index("turns"), p.Plain("turns")}; got != want {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
		if p.Qualified() != strings.Contains(prefix, ".") {
			t.Errorf("%q: qualified %v", prefix, p.Qualified())
		}
	}
	for _, prefix := range []string{
		"1a", "a-b", `a"b`, "a.", ".a", "a.b.c", "a b", "é", strings.Repeat("x", 59),
		strings.Repeat("s", 64) + ".x",
	} {
		if _, err := sqlname.Parse(prefix, "turns"); err == nil {
			t.Errorf("%q is accepted", prefix)
		}
	}
	if _, err := sqlname.Parse(strings.Repeat("x", 58), "turns"); err != nil {
		t.Error(err)
	}
}
