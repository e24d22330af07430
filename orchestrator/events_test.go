package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// declared returns what event.go or errors.go declares at its top level, by name, with its literal.
func declared(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for _, decl := range f.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST && group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			literal := ""
			if lit, ok := value.Values[0].(*ast.BasicLit); ok {
				literal, _ = strconv.Unquote(lit.Value)
			}
			names[value.Names[0].Name] = literal
		}
	}
	return names
}

// scripts each end in the events that they are listed with.
var scripts = map[string]func(t *testing.T, w world, c *orchestrator.CallOptions){
	"turn.started routed intent.started token part intent.ended delivered compacted turn.settled": func(t *testing.T,
		w world, c *orchestrator.CallOptions,
	) {
		d := echo()
		d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error { t.Emit("hel"); return t.Show("lo") }}
		d.Deliver = func(context.Context, *Result) error { return nil }
		due := func(context.Context, orchestrator.Range) bool { return true }
		run := func(context.Context, orchestrator.Range) (u orchestrator.Usage, err error) { return u, nil }
		bot := w.Start(t, d, Options{Compaction: orchestrator.Compaction{Keep: 1, Due: due, Run: run}})
		execute(t, bot, Input{})
		_, _ = bot.Execute(t.Context(), "s", Input{}, c)
	},
	"turn.started routed intent.started intent.ended intent.started intent.ended turn.failed": func(t *testing.T,
		w world, c *orchestrator.CallOptions,
	) {
		d := echo()
		d.Intents["echo"] = Intent{
			Retry: retry.Fixed(2, 0),
			Run:   func(context.Context, *Turn) error { return errors.New("boom") },
		}
		_, _ = w.Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, c)
	},
	"turn.resumed routed intent.started intent.ended routed intent.started intent.ended turn.settled": func(
		t *testing.T, w world, c *orchestrator.CallOptions,
	) {
		w.Crash(t, steps, Input{Text: "a"})
		_, _ = w.Start(t, steps(nil), Options{}).Resume(t.Context(), "s", c)
	},
	"turn.refused": func(t *testing.T, w world, c *orchestrator.CallOptions) {
		_, _ = w.Start(t, echo(), Options{}).Execute(t.Context(), "", Input{}, c)
	},
	"turn.started routed intent.started intent.ended turn.left": func(t *testing.T, w world,
		c *orchestrator.CallOptions,
	) {
		ctx, cancel := context.WithCancel(t.Context())
		d := echo()
		d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}}
		_, _ = w.Start(t, d, Options{}).Execute(ctx, "s", Input{}, c)
	},
	"turn.resumed routed intent.started effect.replayed intent.ended turn.suspended": func(t *testing.T,
		w world, c *orchestrator.CallOptions,
	) {
		s := shop{World: w, Ledger: new(ledger.Memory), Vendor: &vendor{Fail: []error{nil, errTimeout}}}
		two := func(die func()) Def {
			return single(func(ctx context.Context, t *Turn) error {
				_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Key: "1"})
				if die(); err != nil {
					return err
				}
				_, err = s.Vendor.Once(ctx, t, "hat", orchestrator.OnceOptions[string]{Key: "2"})
				return err
			})
		}
		s.Crash(t, two, Input{})
		_, err := s.Start(t, two(func() {}), Options{}).Resume(t.Context(), "s", c)
		wantDoubt(t, err, true)
	},
	"turn.suspended": func(t *testing.T, w world, c *orchestrator.CallOptions) {
		w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
		suspendRun(t, w, "steps")
		_, err := w.Start(t, steps(nil), Options{}).Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, c)
		wantErr(t, err, orchestrator.ErrSuspended)
	},
}

// suspend makes the run in flight one that waits for an answer.
func suspendRun(t *testing.T, w world, name string) {
	t.Helper()
	for r, err := range w.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: name}}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Seq++
		r.Status = snapshot.Suspended
		if err := w.Snapshots.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// Every kind is emitted, in its place, and exactly one event ends a turn.
func TestEvents(t *testing.T) {
	emitted := make(map[string]bool)
	for want, script := range scripts {
		t.Run(want, func(t *testing.T) {
			events := new(diary)
			script(t, newWorld(), &orchestrator.CallOptions{OnEvent: events.Note})
			if got := events.Kinds(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			for _, kind := range strings.Fields(events.Kinds()) {
				emitted[kind] = true
			}
			for i, ev := range events.Events {
				if ev.At.IsZero() || i > 0 && ev.At.Before(events.Events[i-1].At) {
					t.Errorf("%s at %v", ev.Kind, ev.At)
				}
			}
		})
	}
	for name, kind := range declared(t, "event.go") {
		if ast.IsExported(name) && !emitted[kind] {
			t.Errorf("%s is emitted by no script", name)
		}
	}
}

// The events of the turn that was found come first, with an end of its own, for a listener that asks for them.
func TestEventsOfResumedFirst(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	events := new(diary)
	bot := w.Start(t, steps(nil), Options{})
	if _, err := bot.Execute(t.Context(), "s", Input{Text: "b"},
		&orchestrator.CallOptions{Earlier: true, OnEvent: events.Note}); err != nil {
		t.Fatal(err)
	}
	var ends []int
	for _, ev := range events.Events {
		if ev.Kind == orchestrator.TurnSettled {
			ends = append(ends, ev.Turn)
		}
	}
	if !slices.Equal(ends, []int{0, 1}) || !strings.HasPrefix(events.Kinds(), "turn.resumed") ||
		!strings.Contains(events.Kinds(), "turn.settled turn.started") {
		t.Errorf("ends %v: %s", ends, events.Kinds())
	}
}

// No event and no log line shows the user's words or the session's state.
func TestNoSecrets(t *testing.T) {
	const secret = "hunter2"
	var logs bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewJSONHandler(lockedWriter{&mu, &logs}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	boom := errors.New("boom")
	d := Def{
		Name: "careful", Iterate: true, First: "a",
		Begin: func(_ context.Context, t *Turn) error { t.State.A = secret; return nil },
		Intents: Intents{
			"a": {Next: orchestrator.To("b", "c"), Run: func(ctx context.Context, t *Turn) error {
				t.Logger().InfoContext(ctx, "at work", "turn", t, "input", t.Input)
				return nil
			}},
			"b": {
				Next: orchestrator.End,
				Run:  func(_ context.Context, t *Turn) error { t.State.B = secret; return nil },
			},
			"c": {Next: orchestrator.End, Run: func(_ context.Context, t *Turn) error {
				if t.Input.Text == secret+" fails" {
					return boom
				}
				return nil
			}},
		},
		Deliver: func(_ context.Context, r *Result) error { logger.Info("delivering", "result", r); return boom },
	}
	events := new(diary)
	bot := newWorld().Start(t, d, Options{
		Logger: logger,
		History: func(context.Context, string) ([]message.Message, error) {
			return []message.Message{message.User(secret)}, nil
		},
	})
	defer bot.Subscribe(events.Note)()
	for _, text := range []string{secret, secret + " fails"} {
		_, _ = bot.Execute(t.Context(), "s", Input{Text: text, Data: json.RawMessage(`"` + secret + `"`)}, nil)
	}
	mu.Lock()
	defer mu.Unlock()
	all := events.Text() + logs.String()
	if strings.Contains(all, secret) {
		t.Errorf("told:\n%s", all)
	}
	for _, want := range []string{
		"turn.settled", "turn.failed", "at work", "delivering", `"orchestrator":"careful"`,
		`"intent":"a"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// If a handler blocks, it delays only its own call. If it panics or ends its goroutine, it breaks nothing.
func TestHandlers(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}})
	events := new(diary)
	hold := make(chan struct{})
	unsubscribe := []func(){
		bot.Subscribe(func(Event) { panic("handler") }),
		bot.Subscribe(func(Event) { <-hold }),
		bot.Subscribe(events.Note),
	}
	blocked := make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"},
			&orchestrator.CallOptions{OnEvent: func(Event) { <-blocked }})
		done <- err
	}()
	for { // the session is free although the first call still waits for its handler
		if res, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); err != nil || res.Turn > 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
	close(blocked)
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(hold)
	for _, f := range unsubscribe {
		f()
	}
	n := len(events.Kinds())
	execute(t, bot, Input{Text: "c"})
	if len(events.Kinds()) != n {
		t.Error("called after it was unsubscribed")
	}
	leaktest.None(t)
}

// If the reader of a stream stops or waits, the stream's turn goes on and settles. No goroutine stays behind.
func TestStream(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		for range 1000 {
			t.Emit("token ")
		}
		t.State.Said = append(t.State.Said, t.Input.Text)
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	readers := map[string]func(*orchestrator.Stream[State]){
		"leaves early": func(st *orchestrator.Stream[State]) {
			for range st.Events() {
				break
			}
		},
		"never reads": func(*orchestrator.Stream[State]) {},
		"panics": func(st *orchestrator.Stream[State]) {
			defer func() { _ = recover() }()
			for range st.Events() {
				panic("reader")
			}
		},
		"comes late": func(st *orchestrator.Stream[State]) {
			if _, err := st.Result(); err != nil {
				t.Error(err)
			}
			tokens := 0
			for ev := range st.Events() {
				if ev.Kind == orchestrator.Token && ev.Delta == "token " {
					tokens++
				}
			}
			if tokens != 1000 {
				t.Errorf("%d tokens", tokens)
			}
		},
		"goes on": func(st *orchestrator.Stream[State]) {
			n := 0
			for range st.Events() {
				if n++; n == 3 {
					break
				}
			}
			for range st.Events() {
				n++
			}
			if n != 1000+5 {
				t.Errorf("%d events", n)
			}
		},
	}
	for name, read := range readers {
		st := bot.Stream(t.Context(), "s", Input{Text: name}, nil)
		read(st)
		if res, err := st.Result(); err != nil || res.State.Said[len(res.State.Said)-1] != name {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	leaktest.None(t)
}

// A stream that waits for its session ends when its context does.
func TestStreamCancelled(t *testing.T) {
	d, started := hanging()
	bot := newWorld().Start(t, d, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	first := bot.Stream(ctx, "s", Input{}, nil)
	<-started
	gone, leave := context.WithCancel(t.Context())
	second := bot.Stream(gone, "s", Input{}, nil)
	leave()
	_, err := second.Result()
	wantErr(t, err, context.Canceled)
	for ev := range second.Events() {
		if ev.Kind != orchestrator.TurnRefused {
			t.Errorf("%v", ev.Kind)
		}
	}
	cancel()
	_, err = first.Result()
	wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
	leaktest.None(t)
}
