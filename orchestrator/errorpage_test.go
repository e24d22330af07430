package orchestrator_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every error that is exported is met by a test through errors.Is, and is in the table of the package's documentation.
func TestErrorsAreMet(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "_test.go") {
			text, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(text)
		}
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for name := range declared(t, "errors.go") {
		if !strings.HasPrefix(name, "Err") {
			continue
		}
		names++
		met := regexp.MustCompile(`(wantErr\(|errors\.Is\()[^\n]*orchestrator\.` + name + `\b`)
		if !met.MatchString(tests.String()) {
			t.Errorf("no test meets %s", name)
		}
		if !regexp.MustCompile(`\n//\t` + name + ` `).Match(doc) {
			t.Errorf("%s is not in the table of doc.go", name)
		}
	}
	if names < 10 {
		t.Errorf("found %d errors only", names)
	}
}
