package openapitest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// generator is oapi-codegen, which makes a client in Go of a document.
const generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// Whoever generates a client of our documents gets one that compiles, with a type for what a stream sends.
func TestGenerators(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_CLIENTS") == "" {
		t.Skip("make clients runs the generators of clients")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module generated\n\ngo 1.26\n")
	for name, types := range map[string][]string{
		"turnhttp":              {"Event", "Sent", "SentReply", "SentProblem", "Turn", "Problem"},
		"workflow/workflowhttp": {"Run", "Start", "Step", "Problem"},
	} {
		doc, err := filepath.Abs(filepath.Join("..", "..", "..", name, "openapi.json"))
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.Base(name)
		if err := os.Mkdir(filepath.Join(dir, pkg), 0o700); err != nil {
			t.Fatal(err)
		}
		client := filepath.Join(dir, pkg, "client.go")
		run(t, dir, "run", generator, "-generate", "types,client", "-package", pkg, "-o", client, doc)
		code, err := os.ReadFile(client)
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range types {
			if !strings.Contains(string(code), "\ntype "+is+" ") {
				t.Errorf("the client of %s has no type %s", name, is)
			}
		}
	}
	run(t, dir, "mod", "tidy")
	run(t, dir, "vet", "./...")
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the go command in a module of its own.
func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, said)
	}
}
