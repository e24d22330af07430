package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// asProgram makes the test binary be the program. Workers of a demonstration inherit it.
const asProgram = "REFUNDBOT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv(asProgram, "")
	testenv.Main(m)
}

// A process is the program, started by a test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	stderr *syncBuffer
	stdout *syncBuffer // without its first line
	gone   chan struct{}
	err    error // of Wait, once gone is closed
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// people sign in at each program of the tests.
var people = &signer{[]byte("the key of the tests"), "open sesame"}

// environment is that of a program on the stores of c.
func environment(c stores.Config, more ...string) []string {
	env := []string{
		asProgram + "=1", keyEnv + "=" + string(people.key), wordEnv + "=" + people.word,
		"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
	}
	if c.DatabaseURL != "" {
		env = append(env, "DATABASE_URL="+c.DatabaseURL)
	}
	if c.RedisURL != "" {
		env = append(env, "REDIS_URL="+c.RedisURL, "REDIS_PREFIX="+c.RedisPrefix)
	}
	return append(env, more...)
}

// start starts the program and waits until it serves. It is killed when the test ends.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p, line := launch(t, env, args...)
	if line == "" {
		<-p.gone
		t.Fatalf("the program does not serve: %v\n%s", p.err, p.stderr)
	}
	_, p.url, _ = strings.Cut(strings.TrimSpace(line), " is at ")
	return p
}

// launch starts the program. line is the first that it prints; "" if it has ended before.
func launch(t *testing.T, env []string, args ...string) (p *process, line string) {
	t.Helper()
	p = &process{
		t: t, cmd: exec.Command(os.Args[0], args...), stderr: new(syncBuffer), stdout: new(syncBuffer),
		gone: make(chan struct{}),
	}
	p.cmd.Env, p.cmd.Stderr = env, p.stderr
	p.cmd.SysProcAttr = dieWithParent()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		defer close(p.gone)
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(p.stdout, r)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if t.Failed() && p.stderr.String() != "" {
			t.Logf("process %d says\n%s", p.cmd.Process.Pid, p.stderr)
		}
	})
	return p, <-first
}

// service starts one process of a service.
func service(t *testing.T, c stores.Config, pays refundtest.Provider, args ...string) *process {
	t.Helper()
	args = append([]string{"-demo=false", "-addr", "127.0.0.1:0", "-data", c.Dir}, args...)
	return start(t, environment(c, "PROVIDER_URL="+pays.URL), args...)
}

// status waits for the end of the program.
func (p *process) status() int {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(time.Minute):
		p.t.Fatal("the program does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// A turn is the document of a settled turn.
type turn struct {
	Turn     int
	Run      string
	Replayed bool
	Reply    struct {
		Input, Text, Status, Order, Receipt string
		Waiting                             bool
	}
}

// A client asks a service, as somebody.
type client struct {
	url    func() string
	cookie *http.Cookie // nil: nobody
}

// client returns a client at the desk.
func (p *process) client() client {
	return client{url: func() string { return p.url }}.as(person{Name: "ann", Role: roleDesk})
}

// as returns a client of another person.
func (c client) as(who person) client {
	who.Until = time.Now().Add(time.Hour)
	c.cookie = people.cookie(new(http.Request), who)
	return c
}

// signIn returns a client of somebody who signs in, and the name that they get.
func (c client) signIn(t *testing.T, name string, as role, word string) (_ client, called string) {
	t.Helper()
	doc, err := json.Marshal(map[string]string{"name": name, "role": string(as), "word": word})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url()+"/app/sign-in", bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var who person
	err = json.NewDecoder(answer.Body).Decode(&who)
	if err != nil || answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 1 {
		t.Fatalf("%s signs in: %d, %v, %v", name, answer.StatusCode, err, answer.Cookies())
	}
	c.cookie = answer.Cookies()[0]
	return c, who.Name
}

// call makes a request. It returns the status, and decodes the body into into unless that is nil.
func (c client) call(ctx context.Context, method, path, key string, body, into any) (status int, err error) {
	var doc io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		doc = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url()+path, doc)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if c.cookie != nil {
		r.AddCookie(c.cookie)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && into != nil && len(raw) > 0 {
		if err := json.Unmarshal(raw, into); err != nil {
			return answer.StatusCode, fmt.Errorf("%w: %s", err, raw)
		}
	}
	return answer.StatusCode, err
}

// must makes a request that has to have a status.
func (c client) must(t *testing.T, want int, method, path, key string, body, into any) {
	t.Helper()
	status, err := c.call(t.Context(), method, path, key, body, into)
	if err != nil || status != want {
		t.Fatalf("%s %s: %d, %v, want %d: %+v", method, path, status, err, want, into)
	}
}

// say sends a message that has to be answered.
func (c client) say(t *testing.T, session, key, text string) (said turn) {
	t.Helper()
	c.must(t, http.StatusOK, http.MethodPost, "/sessions/"+session+"/turns", key,
		map[string]string{"message": text}, &said)
	return said
}

// insist sends a message, with the same key, until it is answered.
func (c client) insist(ctx context.Context, session, key, text string) (said turn, err error) {
	for {
		status, err := c.call(ctx, http.MethodPost, "/sessions/"+session+"/turns", key,
			map[string]string{"message": text}, &said)
		switch {
		case ctx.Err() != nil:
			return said, context.Cause(ctx)
		case status == http.StatusOK && err == nil:
			return said, nil
		case status >= 400 && status < 500 && status != http.StatusConflict:
			return said, fmt.Errorf("status %d", status)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return said, errors.Join(err, fmt.Errorf("the last status was %d", status))
		}
	}
}

// A standing is the document of a session.
type standing struct {
	Turn  int
	Owner struct {
		ID    string
		Beats int64
	}
	Run   *struct{ Status string }
	Turns []turn
	More  bool
}

func (c client) standing(ctx context.Context, session string) (now standing, err error) {
	_, err = c.call(ctx, http.MethodGet, "/sessions/"+session, "", nil, &now)
	return now, err
}

// question returns where the first refund of a session waits for the desk, and what the answer has to say; "" if none
// does.
func (c client) question(t *testing.T, session string) (path, sum string) {
	t.Helper()
	var all struct{ Waiting []caseDoc }
	c.must(t, http.StatusOK, http.MethodGet, "/app/waiting?session="+session, "", nil, &all)
	if len(all.Waiting) == 0 {
		return "", ""
	}
	path = "/desk/sessions/" + url.PathEscape(all.Waiting[0].Case) + "/questions"
	var open struct {
		Questions []struct{ ID, Sum string }
	}
	c.must(t, http.StatusOK, http.MethodGet, path, "", nil, &open)
	if len(open.Questions) == 0 {
		t.Fatalf("%+v waits, and asks nothing", all.Waiting[0])
	}
	return path + "/" + open.Questions[0].ID, open.Questions[0].Sum
}

// told waits until the newest turn of a session says something.
func (c client) told(t *testing.T, session, what string) (said turn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		now, err := c.standing(ctx, session)
		if err == nil && len(now.Turns) > 0 && strings.Contains(now.Turns[0].Reply.Text, what) {
			return now.Turns[0]
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			t.Fatalf("%s has %+v, %v, want %q", session, now, err, what)
		}
	}
}

// everywhere runs a test in each setting.
func everywhere(t *testing.T, test func(t *testing.T, c stores.Config, pays refundtest.Provider)) {
	t.Helper()
	t.Parallel()
	for _, setting := range refundtest.Settings {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			test(t, refundtest.Config(t, setting), refundtest.StartProvider(t))
		})
	}
}

// awaitOwner waits until a process owns the session, or has settled its turn.
func awaitOwner(ctx context.Context, t *testing.T, ask *process, session string, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		now, err := ask.client().standing(ctx, session)
		if err == nil && (now.Turn >= 0 || now.Run != nil && strings.HasPrefix(now.Owner.ID, ownerOf(pid))) {
			return
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			t.Errorf("process %d does not own %s: %+v, %v", pid, session, now, err)
			return
		}
	}
}

// awaitBeats waits until the owner of the session has said that it lives.
func awaitBeats(ctx context.Context, t *testing.T, ask client, session string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		now, err := ask.standing(ctx, session)
		if err == nil && now.Owner.Beats > 0 {
			return
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("the owner of %s leaves no sign that it lives: %+v, %v", session, now, err)
		}
	}
}
