package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The lines with curl in the README do what it says.
func TestReadmeConcierge(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("the README needs curl: %v", err)
	}
	doc, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	p := startDemo(t, "-pace", "50ms")
	n, dir := 0, t.TempDir()
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		n++
		line = strings.ReplaceAll(line, "http://127.0.0.1:8080", p.url)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), wordEnv+"="+people.word)
		said, err := cmd.Output()
		want := "Order A-1013, two books, is shipped."
		if n == 1 {
			want = `"role":"desk"`
		}
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("%s\nsays %s, %v", line, said, err)
		}
	}
	if n != 3 {
		t.Errorf("the README has %d lines with curl", n)
	}
}
