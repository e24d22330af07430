package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program in docs/mcp.md has 40 lines at most beside its imports, compiles, and does what it says.
func TestPage(t *testing.T) {
	want := "a person agrees to shop_pay\npaid A <nil>\n"
	if got := runPage(t, "../docs/mcp.md"); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// The program in the README lists the tools of a server, with what the agent makes of them.
func TestReadmeProgram(t *testing.T) {
	got := runPage(t, "README.md")
	tools, agreed := strings.Count(got, "\n"), strings.Count(got, ", a person agrees: ")
	if !strings.Contains(got, "pay: ask, a person agrees: true\n") || tools < 13 || agreed != tools {
		t.Errorf("it says %q", got)
	}
}

// runPage returns what the program on a page says, when it is given the shop.
func runPage(t *testing.T, file string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\n")
	program, _, ok := strings.Cut(rest, "```")
	if !ok || strings.Count(program, "\n") > 45 {
		t.Fatalf("the page has no program, or a long one:\n%s", program)
	}
	dir, err := os.MkdirTemp(".", "page") // within the module
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "page")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, self)
	cmd.Env = append(os.Environ(), roleKey+"=shop")
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
