package orchestrator_test

import (
	"regexp"
	"strings"
	"testing"
)

// The README shows the example of package agent and its output.
func TestReadme(t *testing.T) {
	program, output, ok := strings.Cut(readText(t, "../agent/example_readme_test.go"), "\t// Output:\n")
	if !ok {
		t.Fatal("the example has no output")
	}
	program = strings.NewReplacer(
		"package agent_test", "package main", "func Example()", "func main()",
	).Replace(program) + "}\n"
	output = strings.ReplaceAll(strings.TrimSuffix(output, "}\n"), "\t// ", "")

	readme := readText(t, "../README.md")
	if got := fenced(t, readme, "go"); got != program {
		t.Errorf("README.md shows\n%s\nand the example is\n%s", got, program)
	}
	if got := fenced(t, readme, "text"); got != output {
		t.Errorf("README.md says that it prints\n%s\nand it prints\n%s", got, output)
	}
}

// fenced returns the first block of a language.
func fenced(t *testing.T, doc, language string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)```\n").FindStringSubmatch(doc)
	if block == nil {
		t.Fatalf("no block of %s", language)
	}
	return block[1]
}
