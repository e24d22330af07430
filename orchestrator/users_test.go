package orchestrator_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The programs of users, and the programs in the documents, compile and do what they say in a module of their own.
func TestUsers(t *testing.T) {
	m := newUserModule(t)
	m.show(t, "readme", "../README.md")
	m.show(t, "service", "../docs/operations.md")
	m.show(t, "effects", "../docs/effects.md")
	said := make(map[string]string)
	for _, doc := range []string{"recipes", "workflowrecipes", "migrating", "tools"} {
		maps.Copy(said, m.recipes(t, doc))
	}
	said["readme"], said["echo"] = fenced(t, readText(t, "../README.md"), "text"), "You said: hello\n"
	m.run(t, "vet", "./...")
	m.run(t, "test", "./intents")
	together := m.link(t, slices.Sorted(maps.Keys(said)))
	for name, want := range said {
		got, err := exec.CommandContext(t.Context(), together, name).Output()
		if err != nil || string(got) != want {
			t.Errorf("%s said %q, want %q, error %v", name, got, want, err)
		}
	}
}

// The README's commands make a module of one's own run its program, with the modules that the root's build has
// downloaded, and no other. What the tests of dependencies import does not matter.
func TestModuleOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	writeText(t, filepath.Join(dir, "go.mod"), "module example.com/bot\n\ngo 1.26.0\n")
	m := userModule(dir)
	m.show(t, ".", "../README.md")
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var said string
	for line := range strings.Lines(readText(t, "../README.md")) {
		if command, ok := strings.CutPrefix(line, "    go "); ok && !strings.Contains(command, "examples/") {
			said = m.run(t, strings.Fields(strings.ReplaceAll(command, "=../holdfast", "="+checkout))...)
		}
	}
	if want := fenced(t, readText(t, "../README.md"), "text"); said != want {
		t.Errorf("the last command said %q", said)
	}
}

// A userModule is a directory with a go.mod.
type userModule string

// newUserModule copies the users' programs into a module that replaces this one by its checkout.
func newUserModule(t *testing.T) userModule {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "users"))); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod := os.Expand(
		readText(t, filepath.Join(dir, "go.mod.tmpl")), func(string) string { return strconv.Quote(checkout) })
	writeText(t, filepath.Join(dir, "go.mod"), mod)
	writeText(t, filepath.Join(dir, "go.sum"), readText(t, filepath.Join(checkout, "go.sum")))
	return userModule(dir)
}

// show makes a program of the first one in a document.
func (m userModule) show(t *testing.T, name, doc string) {
	t.Helper()
	dir := filepath.Join(string(m), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, "main.go"), fenced(t, readText(t, doc), "go"))
}

// recipes makes a program of the Go blocks of each section of a document in docs. It returns what each program says by
// the document.
func (m userModule) recipes(t *testing.T, doc string) map[string]string {
	t.Helper()
	said := make(map[string]string)
	for n, section := range strings.Split(readText(t, "../docs/"+doc+".md"), "\n## ")[1:] {
		blocks := goBlock.FindAllStringSubmatch(section, -1)
		if len(blocks) == 0 {
			continue
		}
		name := fmt.Sprint(doc, n+1)
		if err := os.MkdirAll(filepath.Join(string(m), name), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, block := range blocks {
			writeText(t, filepath.Join(string(m), name, fmt.Sprintf("block%d.go", i)), block[1])
		}
		said[name] = fenced(t, section, "text")
	}
	if len(said) == 0 {
		t.Fatalf("%s has no recipe", doc)
	}
	return said
}

// link makes one executable of these programs, because to link each takes long. Its argument names the program that it
// runs.
func (m userModule) link(t *testing.T, names []string) string {
	t.Helper()
	var imports, cases strings.Builder
	for _, name := range names {
		fmt.Fprintf(&imports, "import %q\n", "example.com/users/"+name)
		fmt.Fprintf(&cases, "case %q:\n%s.Main()\n", name, name)
		files, err := filepath.Glob(filepath.Join(string(m), name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text := strings.Replace(readText(t, file), "package main\n", "package "+name+"\n", 1)
			writeText(t, file, strings.Replace(text, "\nfunc main() {\n", "\nfunc Main() {\n", 1))
		}
	}
	dir := filepath.Join(string(m), "together")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, "main.go"), fmt.Sprintf(
		"package main\n\nimport \"os\"\n%s\nfunc main() {\nswitch os.Args[1] {\n%s}\n}\n", &imports, &cases))
	executable := filepath.Join(dir, "together")
	m.run(t, "build", "-o", executable, "./together")
	return executable
}

var goBlock = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")

// run returns what a go command prints. It needs no network.
func (m userModule) run(t *testing.T, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = string(m), &stderr
	cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GONOSUMDB=*")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tells matches a handler that sends the text of an error to its client.
var tells = regexp.MustCompile(`(http\.Error|Fprint\w*)\(w,[^()]*\berr\b`)

// No program that the documents or the tests show sends the text of an error to a client.
func TestHandlersTellNothing(t *testing.T) {
	for _, root := range []string{"../README.md", "../docs", "../examples", "testdata/users"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if found := tells.FindString(readText(t, name)); found != "" {
				t.Errorf("%s: %s", name, found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"http.Error(w, err.Error(), 500)", `fmt.Fprintf(w, "%v", err)`, "fmt.Fprintln(w, err.Error())",
	} {
		if !tells.MatchString(text) {
			t.Errorf("%s is not found", text)
		}
	}
}
