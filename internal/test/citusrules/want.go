package citusrules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	function = regexp.MustCompile(`(?ms)^CREATE FUNCTION \{(\w+)\}.*?^END \$\$;`)
	write    = regexp.MustCompile(`(?m)^ +(?:UPDATE|INSERT INTO|DELETE FROM) \{`)
)

// WantKept fails if a rule was broken, or if a writing statement of a function in the file was never run. The file is a
// template of a store. broken and writes come from [Recorder.Broken].
func WantKept(t *testing.T, broken []Breach, file string, writes map[string][]string) {
	t.Helper()
	for _, b := range broken {
		t.Errorf("%s:\n%s\n%s", b.Rule, b.Statement, b.Inside)
	}
	functions, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, string(functions), writes)
}

// wantAll fails if a writing statement of a function in functions was never run.
func wantAll(t *testing.T, functions string, writes map[string][]string) {
	t.Helper()
	for _, f := range function.FindAllStringSubmatch(functions, -1) {
		ran := 0
		for name, lines := range writes {
			if strings.Contains(name, f[1]+"_") {
				slices.Sort(lines)
				ran += len(slices.Compact(lines))
			}
		}
		if want := len(write.FindAllString(f[0], -1)); ran != want {
			t.Errorf("of the statements of %s that write, %d of %d were run", f[1], ran, want)
		}
	}
}

// WantRules fails if one of the rules was not broken.
func WantRules(t *testing.T, broken []Breach, rules ...string) {
	t.Helper()
	for _, rule := range rules {
		if !slices.ContainsFunc(broken, func(b Breach) bool { return b.Rule == rule }) {
			t.Errorf("no statement is said to break this rule: %s", rule)
		}
	}
}
