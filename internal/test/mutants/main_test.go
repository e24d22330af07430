package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tiny runs the program on the module in testdata and returns its journal.
func tiny(t *testing.T, args ...string) (entries []entry, printed string) {
	t.Helper()
	t.Setenv("GOWORK", "off") // the module is in no workspace
	name := filepath.Join(t.TempDir(), "journal")
	o, err := parse(append([]string{"-C", "testdata/tiny", "-journal", name, "-least", "3s"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := mutate(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(name)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	for _, e := range j.known {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.Offset - b.Offset })
	return entries, out.String()
}

func TestVerdicts(t *testing.T) {
	entries, printed := tiny(t, ".")
	got := make(map[string]verdict)
	for _, e := range entries {
		got[e.Change] = e.Verdict
	}
	for change, want := range map[string]verdict{
		"n > limit -> n >= limit":   survived, // it is the same
		"n > limit -> !(n > limit)": killed,
		"n < 0 -> n <= 0":           killed,
		"n < 0 -> !(n < 0)":         killed,
		"0 -> 0 + 1":                killed,
		"2 -> 2 + 1":                killed,
		"a && b -> a || b":          notReached,
		"n-- -> nothing":            timedOut,
		"n == 1 -> n != 1":          "", // does not compile
		"return strconv.Atoi(text) -> nil for the error of strconv.Atoi(text)": survived,
		"return 0, errNegative -> return 0, nil":                               killed,
	} {
		if got[change] != want {
			t.Errorf("%s: %q, want %q", change, got[change], want)
		}
	}
	for _, line := range []string{
		" | 1 |\n", // not compiled
		"- tiny/tiny.go:14: `n > limit -> n >= limit`\n", "- tiny/tiny.go:35: `a && b -> a || b` (not reached)\n",
	} {
		if !strings.Contains(printed, line) {
			t.Errorf("%q is not in\n%s", line, printed)
		}
	}
}

func TestUnreached(t *testing.T) {
	entries, _ := tiny(t, "-unreached", ".")
	for _, e := range entries {
		if e.Line != 35 || e.Verdict != notReached {
			t.Errorf("%v", e)
		}
	}
	if len(entries) != 2 {
		t.Errorf("%d mutants are not reached", len(entries))
	}
}

// A mutant that the journal has is not tried again, unless its file has changed.
func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	f := &file{name: "dir/a.go", text: "one"}
	e := entryOf(&site{file: f, line: 3, change: "x"})
	e.Verdict = killed
	j, err := openJournal(name)
	if err == nil {
		err = j.add(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	j.close()
	torn, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"file":`); err != nil {
		t.Fatal(err)
	}
	torn.Close()
	if j, err = openJournal(name); err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if known, ok := j.find(entryOf(&site{file: f, line: 3, change: "x"})); !ok || known != e {
		t.Errorf("%+v, %v", known, ok)
	}
	f.text = "two"
	if _, ok := j.find(entryOf(&site{file: f, line: 3, change: "x"})); ok {
		t.Error("the file is another")
	}
}

func TestChoose(t *testing.T) {
	a, b := &file{name: "/dir/a.go"}, &file{name: "/dir/ba.go"}
	sites := []*site{{file: a, line: 1}, {file: a, line: 2}, {file: b, line: 2}, {file: a, line: 7}}
	for args, want := range map[string][]int{
		"":                   {0, 1, 2, 3},
		"-lines a.go":        {0, 1, 3},
		"-lines dir/a.go:2":  {1},
		"-lines a.go:2-7":    {1, 3},
		"-every 2":           {0, 2},
		"-every 2 -seed 1":   {1, 3},
		"-lines nowhere.go":  nil,
		"-every 1 -seed 100": {0, 1, 2, 3},
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := o.choose(sites)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, s := range chosen {
			got = append(got, slices.Index(sites, s))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", args, got, want)
		}
	}
	for _, args := range [][]string{{"-every", "0"}, {"-p", "0"}, {"-nonsense"}, {"-run", "TestB|TestA/x"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := (options{every: 1, lines: "a.go:x"}).choose(sites); err == nil {
		t.Error("a line that is no number is accepted")
	}
}
