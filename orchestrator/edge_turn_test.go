package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// soon is a context for calls that must not hang.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A spacious store gives payloads back equal as JSON values, and not as bytes. The contract allows that.
type spacious struct{ snapshot.Store }

func (s spacious) space(r snapshot.Run) snapshot.Run {
	var b bytes.Buffer
	if json.Indent(&b, r.Payload, "", " ") == nil {
		r.Payload = b.Bytes()
	}
	return r
}

func (s spacious) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := s.Store.Begin(ctx, r)
	if found != nil {
		*found = s.space(*found)
	}
	return found, err
}

func (s spacious) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, n int) (snapshot.Run, error) {
	r, err := s.Store.Adopt(ctx, k, f, n)
	return s.space(r), err
}

func (s spacious) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Store.Runs(ctx, q) {
			if !yield(s.space(r), err) {
				return
			}
		}
	}
}

// A saved branch may come back with other white space. Fields that the branch did not change still count as unchanged.
func TestMergeOfResumed(t *testing.T) {
	var died atomic.Bool
	fan := func(die func()) Def {
		return Def{
			Name: "fan", Intents: Intents{
				"quick": {Run: func(_ context.Context, t *Turn) error { t.State.A = "quick"; return nil }},
				"slow": {Run: func(ctx context.Context, t *Turn) error {
					if die == nil {
						t.State.Facts["x"] = 2
						return nil
					}
					if err := branchSaved(ctx, t); err != nil {
						return err
					}
					die()
					died.Store(true)
					return nil
				}},
			}, Begin: func(_ context.Context, t *Turn) error { t.State.Facts = map[string]int{"x": 1}; return nil },
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("slow", "quick"), nil },
		}
	}
	w := newWorld()
	watched = w.Snapshots
	w.Crash(t, fan, Input{})
	w.Snapshots = spacious{w.Snapshots}
	res, err := w.Start(t, fan(nil), Options{}).Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.State.A != "quick" || res.State.Facts["x"] != 2 {
		t.Errorf("%+v", res.State)
	}
}

// A limit that was lowered while a run was in flight bounds the run too.
func TestIterationsLowered(t *testing.T) {
	n := 0
	endless := func(die func()) Def {
		return Def{Name: "endless", Iterate: true, Intents: Intents{"go": {Run: func(context.Context, *Turn) error {
			if n++; n == 4 && die != nil {
				die()
			}
			return nil
		}}}, Route: func(ctx context.Context, t *Turn) (Next, error) {
			if n > 100 {
				return Next{}, errors.New("goes on for ever")
			}
			return orchestrator.To("go"), nil
		}}
	}
	w := newWorld()
	w.Crash(t, endless, Input{})
	_, err := w.Start(t, endless(nil), Options{Limits: orchestrator.Limits{Iterations: 2}}).Resume(soon(t), "s", nil)
	wantErr(t, err, orchestrator.ErrMaxIterations)
}

// A function of the bot that ends its goroutine, as t.FailNow does, has failed.
func TestGoexit(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { runtime.Goexit(); return nil }}
	bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}})
	_, err := bot.Execute(soon(t), "s", Input{}, nil)
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Errorf("got %v", err)
	}
}

// A panic of Retry.Wait is a panic of the bot.
func TestWaitPanics(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{
		Run:   func(context.Context, *Turn) error { return errors.New("no") },
		Retry: retry.Policy{Attempts: 2, Wait: func(int) time.Duration { panic("wait") }},
	}
	bot := newWorld().Start(t, d, Options{})
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("panic: %v", v)
		}
	}()
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok {
		t.Errorf("got %v", err)
	}
	wantRuns(t, bot, 0)
}

// Usage that is not a number does not lose the turn.
func TestUsageNaN(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		t.AddUsage(orchestrator.Usage{Input: 1, Cost: math.NaN()})
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	if err != nil {
		t.Error(err)
	}
	wantRuns(t, bot, 0)
}

// A body that cannot be stopped keeps the session busy, also if a sibling's save failed.
func TestStuckBesideUnsaved(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	begun := make(chan struct{})
	d := Def{Name: "fan", Intents: Intents{
		"bad":   {Run: func(_ context.Context, t *Turn) error { <-begun; t.State.A = "\x00"; return nil }},
		"stuck": {Run: func(context.Context, *Turn) error { close(begun); <-release; return nil }},
	}, Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("bad", "stuck"), nil }}
	w := newWorld()
	bot := w.Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 20 * time.Millisecond}})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	wantRuns(t, bot, 1)
	other := w.Start(t, echoAs("fan"), Options{Limits: orchestrator.Limits{LockWait: 20 * time.Millisecond}})
	_, err = other.Execute(t.Context(), "s", Input{}, &orchestrator.CallOptions{Force: true})
	wantErr(t, err, orchestrator.ErrBusy)
}

// Without a snapshot store, too, a session is free after its turn was abandoned.
func TestAbandonWithoutSnapshots(t *testing.T) {
	d, started := hanging()
	w := world{Checkpoints: new(checkpoint.Memory)}
	bot := w.Start(t, d, Options{Limits: orchestrator.Limits{LockWait: 50 * time.Millisecond}})
	done := make(chan error)
	go func() {
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		done <- err
	}()
	<-started
	if err := abandon(t, bot, "s"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, <-done, orchestrator.ErrAbandoned)
	execute(t, bot, Input{Text: "quick"})
}

// Events that a goroutine emits after the end of its intent are not heard.
func TestEmitAfterReturn(t *testing.T) {
	var late func(string)
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error { late = t.Emit; return nil }}
	bot := newWorld().Start(t, d, Options{})
	events := new(diary)
	st := bot.Stream(t.Context(), "s", Input{}, &orchestrator.CallOptions{OnEvent: events.Note})
	if _, err := st.Result(); err != nil {
		t.Fatal(err)
	}
	late("x")
	var last orchestrator.EventKind
	for ev := range st.Events() {
		last = ev.Kind
	}
	if last != orchestrator.TurnSettled {
		t.Errorf("the last event is %s", last)
	}
}

// The same, with the race detector looking.
func TestEmitRace(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	d := steps(nil)
	two := d.Intents["two"]
	d.Intents["one"] = Intent{Next: orchestrator.To("two"), Run: func(_ context.Context, t *Turn) error {
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					t.Emit("x")
				}
			}
		}()
		return nil
	}}
	d.Intents["two"] = two
	bot := newWorld().Start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	close(stop)
	<-stopped
}

// A tool that is called in Begin belongs to its run like any other.
func TestToolInBegin(t *testing.T) {
	var ran atomic.Int32
	d := echo()
	d.Name = "child"
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error { t.State.N = int(ran.Add(1)); return nil }}
	tool := newWorld().Start(t, d, Options{}).Tool("recall", "",
		func(r *Result) string { return fmt.Sprint(r.State.N) }, nil)
	p := echo()
	p.Begin = func(ctx context.Context, t *Turn) (err error) {
		t.State.A, err = tool.Call(ctx, "recall", json.RawMessage(`{"input":"who is this?"}`))
		return err
	}
	bot := newWorld().Start(t, p, Options{})
	answers := make(map[string]bool)
	for _, session := range []string{"alice", "bob"} {
		res, err := bot.Execute(t.Context(), session, Input{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		answers[res.State.A] = true
	}
	if len(answers) != 2 {
		t.Errorf("bob was told what alice was told: %v", answers)
	}
}

// A call that a turn makes belongs to another turn: its fate is not the caller's.
func TestChildsErrors(t *testing.T) {
	for name, of := range map[string]error{
		"indeterminate": orchestrator.ErrIndeterminate,
		"parked":        orchestrator.ErrParked,
	} {
		t.Run(name, func(t *testing.T) {
			d := echo()
			d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { return fmt.Errorf("child: %w", of) }}
			w := newWorld()
			bot := w.Start(t, d, Options{})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			if errors.Is(err, of) != (len(wantRuns(t, bot, 0)) > 0) {
				t.Errorf("the run is over, and the error says it may not be: %v", err)
			}
		})
	}
}

func TestRecoverOfParentWithParkedChild(t *testing.T) {
	p := func(die func()) Def {
		d := echo()
		d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error {
			if die != nil {
				die()
			}
			return fmt.Errorf("child: %w", orchestrator.ErrParked)
		}}
		return d
	}
	w := newWorld()
	w.Crash(t, p, Input{})
	outcome, err := w.Start(t, p(nil), Options{}).Recover(t.Context(), "s")
	if outcome != "" || err == nil {
		t.Errorf("a run that failed, and is due again, is %q, %v", outcome, err)
	}
}

// A child that is stuck leaves its parent's session free.
func TestStuckChild(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	c := Def{Name: "child", Intents: Intents{"stuck": {
		Timeout: time.Millisecond,
		Run:     func(context.Context, *Turn) error { <-release; return nil },
	}}}
	limits := orchestrator.Limits{SettleTimeout: 20 * time.Millisecond, LockWait: 20 * time.Millisecond}
	child := newWorld().Start(t, c, Options{Limits: limits})
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
		if t.Input.Text == "quick" {
			return nil
		}
		_, err := child.Execute(ctx, "c", Input{}, nil)
		return err
	}}
	bot := newWorld().Start(t, d, Options{Limits: limits})
	if _, err := bot.Execute(t.Context(), "s", Input{}, nil); err == nil {
		t.Error("no error")
	}
	wantRuns(t, bot, 0)
	execute(t, bot, Input{Text: "quick"})
}

// Shutdown lets a turn under way finish, with what it calls.
func TestNestedAtShutdown(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	var bot *Bot
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
		if t.Session == "nested" {
			return nil
		}
		close(begun)
		<-goOn
		_, err := bot.Execute(ctx, "nested", Input{}, nil)
		return err
	}}
	bot = newWorld().Start(t, d, Options{})
	done := make(chan error)
	go func() {
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		done <- err
	}()
	<-begun
	stopped := make(chan error)
	go func() { stopped <- bot.Shutdown(t.Context()) }()
	for {
		if _, err := bot.Execute(t.Context(), "probe", Input{}, nil); errors.Is(err, orchestrator.ErrShuttingDown) {
			break
		}
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// If a caller has gone, the engine does not deliver the backlog of the session for it.
func TestBacklogAndCaller(t *testing.T) {
	d, calls := echo(), 0
	fail := true
	ctx, cancel := context.WithCancel(t.Context())
	d.Deliver = func(context.Context, *Result) error {
		if fail {
			return errors.New("down")
		}
		calls++
		cancel()
		return nil
	}
	bot := newWorld().Start(t, d, Options{})
	for range 5 {
		execute(t, bot, Input{Text: "a"})
	}
	fail = false
	_, _ = bot.Execute(ctx, "s", Input{Text: "b"}, nil)
	if calls != 1 {
		t.Errorf("%d deliveries after the caller had gone", calls-1)
	}
}

// Shutdown does not wait for a summarizer, which can be asked again.
func TestShutdownCompacts(t *testing.T) {
	begun := make(chan struct{})
	run := func(ctx context.Context, _ orchestrator.Range) (u orchestrator.Usage, err error) {
		close(begun)
		<-ctx.Done()
		return u, ctx.Err()
	}
	bot := newWorld().Start(t, echo(), Options{
		Limits:     orchestrator.Limits{SettleTimeout: 30 * time.Millisecond},
		Compaction: orchestrator.Compaction{After: 1, Keep: 1, Run: run, Timeout: 2 * time.Second},
	})
	execute(t, bot, Input{Text: "a"})
	done := make(chan error, 1)
	go func() {
		_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
		done <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := bot.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type picky struct{ N int }

func (p picky) MarshalJSON() ([]byte, error) {
	if p.N > 0 {
		panic("marshal")
	}
	return []byte(`{"N":0}`), nil
}

func (p *picky) UnmarshalJSON(raw []byte) error { return nil }

// A state whose own marshaling panics is the bot's failure.
func TestMarshalPanics(t *testing.T) {
	d := orchestrator.Definition[picky]{
		Name: "picky",
		Intents: orchestrator.Intents[picky]{"one": {Run: func(_ context.Context, t *orchestrator.Turn[picky]) error {
			t.State.N = 1
			return nil
		}}},
	}
	bot, err := orchestrator.New(d, new(checkpoint.Memory), &Options{Snapshots: new(snapshot.Memory), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("panic: %v", v)
		}
	}()
	_, err = bot.Execute(t.Context(), "s", Input{}, nil)
	if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// A run whose state cannot be migrated waits longer each time, like any run that fails.
func TestMigrateBacksOff(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	d := steps(nil)
	d.Version = "2"
	d.Migrate = func(context.Context, checkpoint.Checkpoint) (s State, err error) { return s, errors.New("down") }
	bot := w.Start(t, d, Options{})
	for range 6 {
		_, _ = bot.Recover(t.Context(), "s")
	}
	if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Waiting {
		t.Errorf("%s after six tries within a moment", run.Status)
	}
}

// A null state survives its process.
func TestNullState(t *testing.T) {
	d := func(die func()) orchestrator.Definition[map[string]int] {
		return orchestrator.Definition[map[string]int]{
			Name: "null", Iterate: true, First: "one",
			Intents: orchestrator.Intents[map[string]int]{
				"one": {
					Next: orchestrator.To("two"),
					Run:  func(context.Context, *orchestrator.Turn[map[string]int]) error { return nil },
				},
				"two": {Next: orchestrator.End, Run: func(ctx context.Context, _ *orchestrator.Turn[map[string]int]) error {
					if die != nil {
						die()
					}
					return ctx.Err()
				}},
			},
		}
	}
	w := newWorld()
	o := &Options{Snapshots: w.Snapshots, Logger: quiet()}
	ctx, cancel := context.WithCancel(t.Context())
	bot, err := orchestrator.New(d(cancel), w.Checkpoints, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bot.Execute(ctx, "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	bot, _ = orchestrator.New(d(nil), w.Checkpoints, o)
	if res, err := bot.Resume(t.Context(), "s", nil); err != nil || res.State != nil {
		t.Error(res, err)
	}
}

// The stored input is the input as it came.
func TestInputIsOwn(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		copy(t.Input.Data, `{"n":2}`)
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	data := json.RawMessage(`{"n":1}`)
	execute(t, bot, Input{RequestID: "r", Data: data})
	res := execute(t, bot, Input{RequestID: "r", Data: json.RawMessage(`{"n":1}`)})
	if string(res.Input.Data) != `{"n":1}` || string(data) != `{"n":1}` {
		t.Errorf("%s, %s", res.Input.Data, data)
	}
}
