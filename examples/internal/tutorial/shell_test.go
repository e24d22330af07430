package tutorial

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to see the beats of the program

	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/models/scripted"
)

const program = "./supportbot"

// patience is how long a program may take to say what the page says.
const patience = 2 * time.Minute

// A shell does what a user does in the terminals of the tutorial.
type shell struct {
	dir, checkout, addr string

	// ids are those of this run, by those on the page.
	ids map[string]string

	running *process
	asking  chan error // the end of the curl that is to get no reply
}

// A process is the user's program, while it runs.
type process struct {
	cmd   *exec.Cmd
	lines chan string // what it says; closed at its end
	err   error       // of Wait, once lines is closed
}

// run types a command. If stays is set, the program is to go on, until a command kills it.
func (sh *shell) run(t *testing.T, c command, stays bool) {
	t.Helper()
	for i, w := range c.words {
		for shown, real := range sh.ids {
			w = strings.ReplaceAll(w, shown, real)
		}
		c.words[i] = w
	}
	var got string
	switch name := c.words[0]; name {
	case "mkdir":
		sh.must(t, os.Mkdir(filepath.Join(sh.dir, c.words[1]), 0o700))
	case "cd":
		sh.dir = filepath.Join(sh.dir, c.words[1])
	case "cat":
		text, err := os.ReadFile(filepath.Join(sh.dir, c.words[1]))
		sh.must(t, err)
		got = string(text)
	case "go":
		got = sh.goTool(t, c.words[1:])
	case program:
		sh.start(t, c)
		if stays {
			sh.says(t, c.want)
			return
		}
		got = sh.finish(t)
	case "pkill":
		sh.kill(t, c.words[1:])
	case "curl":
		if strings.HasPrefix(c.want, "curl: (52)") {
			sh.ask(t, c)
			return
		}
		sh.look(t, c)
		return
	default:
		t.Fatalf("the test does not know the command %s", name)
	}
	if c.then != nil {
		got = grep(t, c.then, got)
	}
	if !same(c.want, got, sh.ids) {
		t.Fatalf("%s: printed\n%s\nwant\n%s", strings.Join(c.words, " "), got, c.want)
	}
}

// look types a curl. One that only looks is typed again while it does not see what it wants: a person is not so quick.
func (sh *shell) look(t *testing.T, c command) {
	t.Helper()
	for deadline := time.Now().Add(patience / 4); ; time.Sleep(50 * time.Millisecond) {
		got, err := sh.curl(t.Context(), c.words[1:])
		sh.must(t, err)
		if c.then != nil {
			got = grep(t, c.then, got)
		}
		switch {
		case same(c.want, got, sh.ids):
			return
		case slices.Contains(c.words, "--json") || time.Now().After(deadline):
			t.Fatalf("%s: printed\n%s\nwant\n%s", strings.Join(c.words, " "), got, c.want)
		}
	}
}

func (sh *shell) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// goTool runs a go command without a network. It returns what the command prints, without what it says of downloads.
func (sh *shell) goTool(t *testing.T, args []string) string {
	t.Helper()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "=../holdfast", "="+sh.checkout)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = sh.dir, &stderr
	cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GONOSUMDB=*")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// start starts the user's program.
func (sh *shell) start(t *testing.T, c command) {
	t.Helper()
	if sh.running != nil {
		t.Fatal("a program is running")
	}
	if _, ok := c.env["DATABASE_URL"]; ok {
		c.env["DATABASE_URL"] = testenv.PostgresSchema(t) // skips the rest if there is no server
	}
	if _, ok := c.env["OPENAI_API_KEY"]; ok {
		c.env["OPENAI_BASE_URL"] = vendor(t)
	}
	r, w, err := os.Pipe()
	sh.must(t, err)
	p := &process{cmd: exec.CommandContext(t.Context(), program, c.words[1:]...), lines: make(chan string, 1000)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = sh.dir, w, w
	p.cmd.Env = append(p.cmd.Environ(), "ADDR="+sh.addr, "OPENAI_API_KEY=")
	for name, value := range maps.All(c.env) {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	err = p.cmd.Start()
	sh.must(t, errors.Join(err, w.Close()))
	sh.running = p
	go func() { // until the program has ended, which end sees to
		defer close(p.lines)
		for all := bufio.NewScanner(r); all.Scan(); {
			p.lines <- all.Text() + "\n"
		}
		p.err = errors.Join(p.cmd.Wait(), r.Close())
	}()
}

// vendor returns the URL of a server that speaks as OpenAI does, by a script.
func vendor(t *testing.T) string {
	model := scripted.New(
		scripted.On("A-1007", scripted.Call("order", `{"number": "A-1007"}`), scripted.Say("It is {result}.")))
	server := httptest.NewServer(modeltest.Responses.Serve(model))
	t.Cleanup(server.Close)
	return server.URL
}

// line returns the next line of the program; false at its end.
func (sh *shell) line(t *testing.T) (string, bool) {
	t.Helper()
	if sh.running == nil {
		t.Fatal("no program is running")
	}
	select {
	case line, ok := <-sh.running.lines:
		return line, ok
	case <-time.After(patience):
		t.Fatal("the program says nothing")
		return "", false
	}
}

// says wants the next lines of the program to be these.
func (sh *shell) says(t *testing.T, want string) {
	t.Helper()
	for w := range strings.Lines(want) {
		if got, _ := sh.line(t); !same(w, got, sh.ids) {
			t.Fatalf("the program says %q, want %q", got, w)
		}
	}
}

// await waits until the program has said these lines. It may say others before and between.
func (sh *shell) await(t *testing.T, want string) {
	t.Helper()
	for w := range strings.Lines(want) {
		for {
			got, ok := sh.line(t)
			if !ok {
				t.Fatalf("the program has ended without %q", w)
			}
			if same(w, got, sh.ids) {
				break
			}
		}
	}
}

// finish returns what the program says until it ends by itself.
func (sh *shell) finish(t *testing.T) (said string) {
	t.Helper()
	for {
		line, ok := sh.line(t)
		if !ok {
			break
		}
		said += line
	}
	err := sh.running.err
	sh.running = nil
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return said
}

// kill ends the program as pkill does. It knows the program by its process, and not by a name.
func (sh *shell) kill(t *testing.T, args []string) {
	t.Helper()
	if sh.running == nil {
		t.Fatal("no program is running")
	}
	sig := syscall.SIGTERM
	if args[0] == "-9" {
		sig, args = syscall.SIGKILL, args[1:]
	}
	if len(args) != 1 || args[0] != filepath.Base(program) {
		t.Fatalf("pkill of %q", args)
	}
	p := sh.running
	if sig == syscall.SIGKILL {
		sh.awaitBeat(t)
	}
	sh.must(t, p.cmd.Process.Signal(sig))
	sh.drain(t)
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if wasKilled := status.Signaled() && status.Signal() == sig; wasKilled != (sig == syscall.SIGKILL) {
		t.Fatalf("the program ended by %v", p.err)
	}
	if sig == syscall.SIGTERM {
		sh.must(t, p.err)
	}
	if sh.asking != nil {
		if err := <-sh.asking; !errors.Is(err, io.EOF) {
			t.Fatalf("the client that waited got %v, want an empty reply", err)
		}
		sh.asking = nil
	}
}

// awaitBeat waits until the program has told for the first time that it is alive, as it has when a person kills it. A
// program that is killed sooner is replaced as well, but only when its lease has expired.
func (sh *shell) awaitBeat(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(sh.dir, "support.db")+"?_pragma=busy_timeout(5000)")
	sh.must(t, err)
	defer db.Close()
	owner := fmt.Sprintf("%%/%d/%%", sh.running.cmd.Process.Pid)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		beats := 0
		const query = "SELECT count(*) FROM holdfast_beats WHERE process LIKE ?"
		sh.must(t, db.QueryRowContext(t.Context(), query, owner).Scan(&beats))
		if beats > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the program tells no one that it is alive")
}

// drain waits until the program has ended.
func (sh *shell) drain(t *testing.T) {
	t.Helper()
	for ok := true; ok; {
		_, ok = sh.line(t)
	}
	sh.running = nil
}

// end ends a program that a failed step has left.
func (sh *shell) end(t *testing.T) {
	if p := sh.running; p != nil {
		sh.running = nil
		_ = p.cmd.Process.Kill()
		for range p.lines { // until it has ended
		}
		if !t.Failed() && !t.Skipped() {
			t.Error("the step ends while its program runs")
		}
	}
}

// ask sends a request that gets no reply. kill waits for its end.
func (sh *shell) ask(t *testing.T, c command) {
	asking := make(chan error, 1)
	sh.asking = asking
	go func(ctx context.Context) {
		_, err := sh.curl(ctx, c.words[1:])
		asking <- err
	}(t.Context())
}

// grep is grep -o, with -E or without.
func grep(t *testing.T, words []string, text string) (found string) {
	t.Helper()
	if len(words) != 3 || words[0] != "grep" || words[1] != "-o" && words[1] != "-oE" {
		t.Fatalf("the test does not know the command %q", words)
	}
	pattern, err := regexp.Compile(words[2])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		for _, part := range pattern.FindAllString(strings.TrimSuffix(line, "\n"), -1) {
			found += part + "\n"
		}
	}
	return found
}
