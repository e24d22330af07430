package modeltest

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/models/scripted"
)

// Readme checks that the program in the README of a module compiles and asks the vendor, that it names the variable if
// there is no key, and that it says in one line if the key is refused. The test runs in the folder of the module.
func Readme(t *testing.T, w Wire) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	program, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the README has no program")
	}
	dir, err := os.MkdirTemp(".", "readme") // within the module
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
	binary := filepath.Join(t.TempDir(), "readme")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+dir)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	replies := scripted.New(scripted.On("Good morning", scripted.Say("Hello.")))
	server := httptest.NewServer(w.Serve(replies))
	defer server.Close()
	refuses := httptest.NewServer(w.Handler(func(Asked) Answer {
		return Answer{Status: 401, Body: w.Fault("invalid_api_key", "wrong key: sk-secret")}
	}))
	defer refuses.Close()
	run := func(url, key string) string {
		cmd := exec.CommandContext(t.Context(), binary)
		base := strings.TrimSuffix(w.Key, "_API_KEY") + "_BASE_URL="
		cmd.Env = append(os.Environ(), w.Key+"="+key, base+url, "ANTHROPIC_AUTH_TOKEN=")
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatal(err)
		}
		return string(out)
	}
	if got := run(server.URL, "sk-secret"); got != "Hello.\n" {
		t.Errorf("it says %q", got)
	}
	for url, want := range map[string]string{
		"": w.Key + " is not set\n", refuses.URL: "the key in " + w.Key + " is refused (401 invalid_api_key)\n",
	} {
		key := "sk-secret"
		if url == "" {
			key = ""
		}
		got := run(url, key)
		lines := strings.SplitAfter(strings.TrimSuffix(got, "\n"), "\n")
		if last := lines[len(lines)-1] + "\n"; !strings.HasSuffix(last, want) || strings.Contains(got, "sk-secret") {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
