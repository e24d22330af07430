package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What make race leaves out is there, and make test runs it.
func TestRaceLeavesOut(t *testing.T) {
	unraced := alternatives(t, variable(t, "UNRACED"))
	used := make([]bool, len(unraced))
	for _, p := range packages(t) {
		for _, name := range testsIn(t, p.Dir) {
			for i, left := range unraced {
				used[i] = used[i] || left.MatchString(name)
			}
		}
	}
	for i, left := range unraced {
		if !used[i] {
			t.Errorf("UNRACED in the Makefile has %s, and no test has such a name", left)
		}
	}
}

// make test, make settings and make race leave out what they say and nothing more. What make test leaves out, make
// settings runs.
func TestWhatIsSkipped(t *testing.T) {
	makefile := text(t, "Makefile")
	for target, wants := range map[string][]string{
		"test": {"-skip '$(SETTING)|$(LARGEST)' $(FIRST) $(TESTED)\n"},
		"settings": {
			"-run '$(SETTING)' -skip '$(LARGEST)' $$packages\n", "grep -rlE --include='*_test.go' '^func Test($(SETTINGS)|",
		},
		"race": {
			"-skip '$(UNRACED)|$(LARGEST)' $(word 1,$(FIRST)) $$packages\n", "go list $(PACKAGES) | grep -vE '$(SINGLE)'",
		},
	} {
		recipe := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindStringSubmatch(makefile)
		if recipe == nil {
			t.Fatalf("the Makefile has no target %s", target)
		}
		for _, want := range wants {
			if !strings.Contains(recipe[1], want) {
				t.Errorf("%s in the Makefile lacks %q", target, want)
			}
		}
		if n := strings.Count(recipe[1], "-skip "); n != 1 {
			t.Errorf("%s in the Makefile leaves out tests %d times", target, n)
		}
		if n := strings.Count(recipe[1], "-run "); n > 0 && target != "settings" {
			t.Errorf("%s in the Makefile runs only some tests", target)
		}
	}
	for _, pattern := range regexp.MustCompile(`\|\^`).Split(variable(t, "LARGEST"), -1) {
		if !strings.HasSuffix(pattern, "/largest") {
			t.Errorf("LARGEST in the Makefile skips more than the largest document: %s", pattern)
		}
	}
}

// variable returns a variable of the Makefile, expanded.
func variable(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` *:= (.*)$`).FindStringSubmatch(text(t, "Makefile"))
	if found == nil {
		t.Fatalf("the Makefile has no variable %s", name)
	}
	expanded := regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(found[1], func(use string) string {
		return variable(t, use[2:len(use)-1])
	})
	return strings.ReplaceAll(expanded, "$$", "$")
}

// alternatives returns what each alternative of a pattern of go test demands of the name of a test. It leaves out what
// the pattern demands of subtests.
func alternatives(t *testing.T, pattern string) (names []*regexp.Regexp) {
	t.Helper()
	one := regexp.MustCompile(`^\^?(Test\([\w|]+\)\$|Test\w+\$)(/.*)?$`)
	for _, part := range regexp.MustCompile(`\|\^`).Split(pattern, -1) {
		found := one.FindStringSubmatch(part)
		if found == nil {
			t.Fatalf("a pattern of the Makefile has %s, and not ^Test…$", part)
		}
		words := strings.Trim(strings.TrimPrefix(found[1], "Test"), "()$")
		for _, word := range strings.Split(words, "|") {
			names = append(names, regexp.MustCompile("^Test"+word+"$"))
		}
	}
	return names
}

// testsIn returns the tests, examples and fuzz targets of a directory.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range function.FindAllSubmatch(b, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}
