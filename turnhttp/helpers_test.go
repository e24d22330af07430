package turnhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(readersOf); addr != "" {
		if err := readMany(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// soak reports whether there is time for everything.
func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }

// secret is in states and errors, and must not go out.
const secret = "hunter2"

// A State is that of the bot of these tests.
type State struct {
	Text   string
	Asks   string // the id of a question
	Cents  int
	Due    time.Time
	Secret string
}

type (
	Bot        = orchestrator.Orchestrator[State]
	Turn       = orchestrator.Turn[State]
	Definition = orchestrator.Definition[State]
	Options    = orchestrator.Options
)

// A world is the stores that the processes of a bot share.
type world struct {
	checkpoints checkpoint.Store
	snapshots   snapshot.Store
	effects     ledger.Ledger
	answers     inbox.Store
	events      stream.Store // nil: none
	ran         atomic.Int64 // calls of the intent
	hold        chan struct{}
	stop        chan string // what Chat was asked to stop, or to branch

	// deletes is Delete of the newest bot.
	deletes func(ctx context.Context, session string) error

	mu   sync.Mutex
	logs strings.Builder
}

func newWorld() *world {
	return &world{
		checkpoints: new(checkpoint.Memory), snapshots: new(snapshot.Memory), effects: new(ledger.Memory),
		answers: new(inbox.Memory), events: new(stream.Memory), hold: make(chan struct{}),
		stop: make(chan string, 1),
	}
}

// Write keeps the logs.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.Write(line)
}

// definition is a bot that does what the input says.
func (w *world) definition() Definition {
	return Definition{
		Name:    "bot",
		Intents: orchestrator.Intents[State]{"do": {Run: w.do}},
		Begin: func(_ context.Context, t *Turn) error {
			if t.Input.Text == "refuse" {
				return &orchestrator.InputError{Field: "text", Reason: "not taken"}
			}
			return nil
		},
	}
}

func (w *world) do(ctx context.Context, t *Turn) error {
	w.ran.Add(1)
	t.State.Secret = secret
	verb, rest, _ := strings.Cut(t.Input.Text, " ")
	switch verb {
	case "say":
		for word := range strings.FieldsSeq(rest) {
			t.Emit(word + " ")
		}
		t.State.Text = rest
	case "slow": // a word for each element of hold
		for word := range strings.FieldsSeq(rest) {
			if err := w.wait(ctx); err != nil {
				return err
			}
			t.Emit(word + " ")
		}
		t.State.Text = rest
	case "ask":
		_, err := fmt.Sscanf(rest, "%s %d", &t.State.Asks, &t.State.Cents)
		return err
	case "answer":
		if rest == "hold" {
			return w.wait(ctx)
		}
		if rest == "fail" {
			return errors.New(secret)
		}
		t.State.Asks, t.State.Text = "", t.Input.Text
	case "fail":
		return errors.New(secret)
	case "panic":
		panic(secret)
	case "pay":
		_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
			if rest == "slowly" {
				return "", w.wait(ctx)
			}
			return "", errors.New(secret)
		}, nil)
		return err
	}
	return nil
}

func (w *world) wait(ctx context.Context) error {
	select {
	case <-w.hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bot starts a process. o may be nil.
func (w *world) bot(t testing.TB, d Definition, o *Options) *Bot {
	t.Helper()
	opts := Options{}
	if o != nil {
		opts = *o
	}
	opts.Snapshots, opts.Ledger, opts.Stream = w.snapshots, w.effects, w.events
	opts.Logger = slog.New(slog.NewTextHandler(w, nil))
	bot, err := orchestrator.New(d, w.checkpoints, &opts)
	if err != nil {
		t.Fatal(err)
	}
	w.deletes = bot.Delete
	t.Cleanup(func() {
		if err := bot.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return bot
}

// remove deletes a session.
func (w *world) remove(ctx context.Context, session string) error { return w.deletes(ctx, session) }

// wantNothing checks that nothing is stored, and nothing logged.
func (w *world) wantNothing(t *testing.T) {
	t.Helper()
	for session, err := range w.checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot"}) {
		t.Errorf("session %.20q is stored: %v", session, err)
	}
	for r, err := range w.snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
		t.Errorf("a run of session %.20q is stored: %v", r.Session, err)
	}
	for it, err := range w.answers.Items(t.Context(), inbox.Key{Orchestrator: "bot"}, inbox.Answer) {
		t.Errorf("answer %.20q is stored: %v", it.ID, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs.Len() > 0 {
		t.Errorf("it logs %s", w.logs.String())
	}
}

// served serves a handler without a network, until the test is over. It works with fake time.
func served(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	return listen(t, h).Client()
}

// connect is serve for a client that speaks HTTP by itself.
func connect(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	conn, err := listen(t, h).Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func listen(t *testing.T, h http.Handler) *bubble.Pipe {
	t.Helper()
	p := bubble.NewPipe()
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)} //nolint:gosec // a test
	done := make(chan error, 1)
	go func() { done <- server.Serve(p) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return p
}

// options are those of the handlers of these tests.
func (w *world) options() turnhttp.Options[State] {
	return turnhttp.Options[State]{
		Authorize: func(r *http.Request, _ string, _ turnhttp.Action) (turnhttp.Actor, error) {
			switch r.Header.Get("Authorization") {
			case "wrong":
				return "", errors.New(secret)
			case "other":
				return "", fmt.Errorf("%s: %w", secret, turnhttp.ErrDenied)
			}
			if _, says := r.Header["Who"]; !says {
				return "reader", nil
			}
			return turnhttp.Actor(r.Header.Get("Who")), nil
		},
		Reply: func(res *orchestrator.Result[State]) any { return res.State.Text },
		Questions: func(s *State) []approval.Question {
			if s.Asks == "" {
				return nil
			}
			return []approval.Question{{ID: s.Asks, Shown: map[string]int{"cents": s.Cents}, Expires: s.Due}}
		},
		Answer: func(_ approval.Question, a approval.Answer) (orchestrator.Input, error) {
			var text string
			if err := json.Unmarshal(a.Data, &text); err != nil {
				return orchestrator.Input{}, err
			}
			return orchestrator.Input{Text: text, Data: json.RawMessage(`{"by":"` + a.By + `"}`)}, nil
		},
		Inbox:  w.answers,
		Ledger: w.effects,
		Chat:   talk{stopped: w.stop, remove: w.remove},
	}
}

// A talk is a conversation of three messages in each session.
type talk struct {
	stopped chan<- string
	err     error
	remove  func(ctx context.Context, session string) error
}

func (c talk) Messages(_ context.Context, _ string, before, limit int) ([]message.Message, int, error) {
	all := []message.Message{
		message.User("hi"),
		{Role: "assistant", CreatedAt: time.Now(), Blocks: []message.Block{
			message.Reasoning(secret, nil), message.Text("I look"), message.ToolCall("c", "look", []byte(`{"at":1}`)),
		}},
		{Role: "tool", Turn: 1, Blocks: []message.Block{message.ToolResult("c", "found", true)}},
	}
	end := min(before, len(all))
	first := max(0, end-limit)
	return all[first:end], first, c.err
}

func (c talk) Stop(_ context.Context, session, run, reason string) error {
	if c.stopped != nil {
		c.stopped <- strings.Join([]string{session, run, reason}, " ")
	}
	return c.err
}

func (c talk) Branch(_ context.Context, from string, turn int, to string) error {
	if c.stopped != nil {
		c.stopped <- fmt.Sprint(from, " ", turn, " ", to)
	}
	return c.err
}

func (c talk) Delete(ctx context.Context, session string) error {
	if c.err == nil && c.remove != nil {
		return c.remove(ctx, session)
	}
	return c.err
}

// sumOf is the sum that comes with a question.
func sumOf(session, id string, shown any) string {
	sum, err := inbox.Sum([]any{session, id, shown})
	if err != nil {
		panic(err)
	}
	return sum
}

// sumOfQ1 is the sum of what "ask q1 100" asks in session s.
var sumOfQ1 = sumOf("s", "q1", map[string]int{"cents": 100})

// answerBody is the body of an answer to "ask q1 100".
func answerBody(answer string) string { return `{"answer":` + answer + `,"sum":"` + sumOfQ1 + `"}` }

// A request is a request of a test. Its fields without a value are left out.
type request struct {
	method, path, key, body string
	header                  map[string]string

	// slow says that the body does not arrive in time.
	slow bool
}

func (q request) make(ctx context.Context, base string) *http.Request {
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	if q.slow {
		body = iotest.ErrReader(os.ErrDeadlineExceeded)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, base+q.path, body)
	if err != nil {
		panic(err)
	}
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	r.Header.Set("Who", "ann")
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	return r
}

// to sends the request to a handler.
func (q request) to(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	return sent(h, q.make(ctx, ""))
}

func sent(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// turnOf has the fields of a turn document that these tests read.
type turnOf struct {
	Turn     int
	Run      string
	Reply    string
	Replayed bool
	Request  string
	Resumed  *turnOf
}

func decode[T any](t *testing.T, doc []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

// typeOf returns the type of a problem document.
func typeOf(doc []byte) string {
	var p struct{ Type string }
	_ = json.Unmarshal(doc, &p)
	return strings.TrimPrefix(p.Type, "/problems/")
}

// An event is a server-sent event.
type event struct{ id, kind, data string }

// events reads server-sent events until the end, or until f returns false. Comments are left out.
func readEvents(r io.Reader, f func(event) bool) error {
	var ev event
	return scan(r, func(line string) bool {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
			if ev.kind == "" {
				return true
			}
			done := ev
			ev = event{}
			return f(done)
		case "id":
			ev.id = value
		case "event":
			ev.kind = value
		case "data":
			ev.data = value
		}
		return true
	})
}
