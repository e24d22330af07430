package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A watchedLog is a turn log whose calls a test sees.
type watchedLog struct {
	turnlog.Memory

	// before may fail a Record, or hold it up.
	before func(ctx context.Context, e turnlog.Entry) error

	mu       sync.Mutex // protects following field
	restores int
}

func (l *watchedLog) Record(ctx context.Context, e turnlog.Entry) error {
	if l.before != nil {
		if err := l.before(ctx, e); err != nil {
			return err
		}
	}
	return l.Memory.Record(ctx, e)
}

func (l *watchedLog) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restores++
	return l.Memory.Restore(ctx, run)
}

// entries returns what the log has of all runs, in the order of their times.
func (l *watchedLog) entries(t testing.TB) (all []turnlog.Entry) {
	t.Helper()
	for turn, err := range l.Turns(t.Context(), turnlog.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		of, err := l.Memory.Restore(t.Context(), turn.First.Run)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, of...)
	}
	return all
}

// phasesOf returns the phases of entries. Of settled it shows the turn state too.
func phasesOf(all []turnlog.Entry) string {
	var names []string
	for _, e := range all {
		name := e.Phase
		if e.Phase == turnlog.Settled {
			name += "(" + ended(e).TurnState + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func ended(e turnlog.Entry) (s turnlog.SettledState) {
	_ = json.Unmarshal(e.State, &s)
	return s
}

// wantRow checks the status of the run that is stored. "" means that there is none.
func wantRow(t testing.TB, w world, want snapshot.Status) {
	t.Helper()
	var got snapshot.Status
	for _, name := range []string{"agent", "echo"} {
		for r, err := range w.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: name}}) {
			if err != nil {
				t.Fatal(err)
			}
			got = r.Status
		}
	}
	if got != want {
		t.Errorf("the stored run is %q, want %q", got, want)
	}
}

func (l *watchedLog) wantPhases(t testing.TB, want string) []turnlog.Entry {
	t.Helper()
	all := l.entries(t)
	if got := phasesOf(all); got != want {
		t.Errorf("phases %q, want %q", got, want)
	}
	return all
}

// registered returns a log that takes the phases of the tests.
func registered(l turnlog.Log) *turnlog.Checked {
	r := turnlog.NewRegistry()
	if err := r.Register("peer-call", "a peer was called"); err != nil {
		panic(err)
	}
	return turnlog.New(l, r)
}

// agent is a bot that asks a model, calls a tool, and answers.
func agent() Def {
	return Def{
		Name: "agent", First: "model", Iterate: true,
		Intents: Intents{
			"model": {Next: orchestrator.To("tool"), Run: func(ctx context.Context, t *Turn) error {
				t.State.Said = append(t.State.Said, "model")
				return t.Record(ctx, turnlog.LLMComplete, map[string]any{
					"messages": []message.Message{message.Assistant("I look it up.")}, "respond": nil,
				})
			}},
			"tool": {Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
				if err := t.Record(ctx, turnlog.ToolDispatched, "order"); err != nil {
					return err
				}
				t.State.Said = append(t.State.Said, "tool")
				if err := t.Record(ctx, "peer-call", nil); err != nil {
					return err
				}
				return t.Record(ctx, turnlog.ToolReceived, map[string]string{"message": "shipped", "slotKey": "1"})
			}},
		},
	}
}

// B2, B22, B23, B24, B25, B26, B27, B28, B30: what a turn records, in order.
func TestPhases(t *testing.T) {
	l := new(watchedLog)
	w := newWorld()
	bot := w.Start(t, agent(), Options{TurnLog: registered(l), Limits: orchestrator.Limits{TurnTimeout: time.Hour}})
	res := execute(t, bot, Input{
		RequestID: "r1", Text: "where is it?", Data: json.RawMessage(`{"order":7}`), Kind: "ask",
	})
	all := l.wantPhases(t, "started llm-complete tool-dispatched peer-call tool-received settled(complete)")
	for i, e := range all {
		if e.Run != res.RunID || e.Session != "s" || e.Orchestrator != "agent" || e.Turn != 0 {
			t.Errorf("entry %+v", e)
		}
		if i > 0 && e.At.Sub(all[i-1].At) < time.Millisecond {
			t.Errorf("%s comes %v after %s", e.Phase, e.At.Sub(all[i-1].At), all[i-1].Phase)
		}
	}
	var started turnlog.StartedState
	if err := json.Unmarshal(all[0].State, &started); err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(message.User("where is it?"))
	if err != nil || started.Actor != "agent" || started.Kind != "ask" ||
		started.Slot != lock.Key("agent", "s") || len(started.Messages) != 1 ||
		!turnlog.Same(started.Messages[0], said) || !turnlog.Same(started.Data, json.RawMessage(`{"order":7}`)) ||
		!started.ExpiresAt.Equal(all[0].At.Add(time.Hour)) {
		t.Errorf("started %+v, %v", started, err)
	}
	state, err := json.Marshal(res.State)
	if end := ended(all[5]); err != nil || !turnlog.Same(end.Respond, state) || end.Reason != "" {
		t.Errorf("settled %+v, %v", end, err)
	}
	wantRuns(t, bot, 0)
}

// B7, B8: a turn log changes neither the outcomes nor the events, and only the option differs.
func TestWithoutTurnLog(t *testing.T) {
	boom := errors.New("boom")
	script := func(o Options) string {
		d := agent()
		d.Deliver = func(context.Context, *Result) error { return nil }
		d.Begin = func(_ context.Context, t *Turn) error {
			if t.Input.Text == "refused" {
				return &orchestrator.InputError{Field: "text", Reason: "refused"}
			}
			return nil
		}
		tool := d.Intents["tool"]
		run := tool.Run
		tool.Run = func(ctx context.Context, t *Turn) error {
			t.Emit("token")
			if t.Input.Text == "fails" {
				return boom
			}
			return run(ctx, t)
		}
		d.Intents["tool"] = tool
		var heard diary
		bot := newWorld().Start(t, d, o)
		defer bot.Subscribe(heard.Note)()
		var told []string
		for _, text := range []string{"a", "refused", "fails", "b"} {
			res, err := bot.Execute(t.Context(), "s", Input{Text: text}, nil)
			if err == nil {
				told = append(told, fmt.Sprint(res.Turn, res.State.Said, res.Steps[0].Next.Intents))
			} else {
				told = append(told, details(t, err).Op)
			}
		}
		return fmt.Sprint(told, heard.Kinds())
	}
	without, with := script(Options{}), script(Options{TurnLog: registered(new(turnlog.Memory))})
	if without != with {
		t.Errorf("without %s\nwith    %s", without, with)
	}
}

// B9: the engine never calls Restore.
func TestRestoreIsNeverCalled(t *testing.T) {
	l := new(watchedLog)
	w := newWorld()
	o := Options{TurnLog: registered(l)}
	execute(t, w.Start(t, agent(), o), Input{Text: "a"})
	l.crash(t, w, "tool")
	bot := w.Start(t, agent(), o)
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("recovered %s, %v", outcome, err)
	}
	l.crash(t, w, "tool")
	if err := abandon(t, bot, "s"); err != nil {
		t.Error(err)
	}
	byRun := make(map[string][]turnlog.Entry)
	for _, e := range l.entries(t) {
		byRun[e.Run] = append(byRun[e.Run], e)
	}
	var got []string
	for _, all := range byRun {
		got = append(got, phasesOf(all))
	}
	slices.Sort(got)
	const whole = "started llm-complete tool-dispatched peer-call tool-received settled(complete)"
	if want := []string{"started llm-complete settled(cancelled)", whole, whole}; !slices.Equal(got, want) {
		t.Errorf("phases %q", got)
	}
	if l.restores > 0 {
		t.Errorf("Restore was called %d times", l.restores)
	}
}

// crash leaves a run whose process died when it came to an intent.
func (l *watchedLog) crash(t testing.TB, w world, intent string) {
	t.Helper()
	l.crashAs(t, w, intent, nil)
}

// crashAs is crash for a bot with another Begin.
func (l *watchedLog) crashAs(t testing.TB, w world, intent string, begin func(context.Context, *Turn) error) {
	t.Helper()
	grave := &grave{World: w}
	ends := grave.Ends()
	d := agent()
	d.Begin = begin
	d.Intents = maps.Clone(d.Intents)
	in := d.Intents[intent]
	in.Run = func(context.Context, *Turn) error { grave.Die(); return errDead }
	d.Intents[intent] = in
	o := Options{Snapshots: ends.Snapshots, TurnLog: registered(l), Logger: quiet()}
	bot, err := orchestrator.New(d, ends.Checkpoints, &o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); err == nil {
		t.Fatal("the process did not die")
	}
	w.FreeUp(t, bot.Name())
}

// B4, B5, B6, B29: a Record that fails ends the turn, whatever the intent makes of the error. Nothing runs after it.
func TestRecordFails(t *testing.T) {
	lost := errors.New("the log is away")
	for _, swallow := range []bool{false, true} {
		for _, at := range []string{turnlog.LLMComplete, turnlog.ToolDispatched, "peer-call", turnlog.ToolReceived} {
			t.Run(fmt.Sprintf("%s, swallowed %t", at, swallow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fails := true
					l := &watchedLog{before: func(_ context.Context, e turnlog.Entry) error {
						if fails && e.Phase == at {
							return lost
						}
						return nil
					}}
					d := agent()
					after := false
					for name, in := range d.Intents {
						run := in.Run
						in.Run = func(ctx context.Context, t *Turn) error {
							if after {
								t.State.N++
							}
							err := run(ctx, t)
							if after = after || err != nil; after && t.Record(ctx, "peer-call", "once more") == nil {
								t.State.N++
							}
							if swallow {
								return nil
							}
							return err
						}
						d.Intents[name] = in
					}
					w := newWorld()
					o := Options{TurnLog: registered(l), Limits: orchestrator.Limits{SettleTimeout: time.Second}}
					bot := w.Start(t, d, o)
					in := Input{RequestID: "r", Text: "a"}
					_, err := bot.Execute(t.Context(), "s", in, nil)
					wantErr(t, err, orchestrator.ErrIndeterminate, lost)
					wantRuns(t, bot, 1)
					fails, after = false, false
					res := execute(t, w.Start(t, agent(), o), in) // it goes on where it was
					wantSaid(t, res.State, "model", "tool")
					if res.State.N != 0 {
						t.Errorf("%d calls came after the failure", res.State.N)
					}
					if got := phasesOf(l.entries(t)); !strings.HasPrefix(got, "started ") ||
						!strings.HasSuffix(got, " settled(complete)") || strings.Count(got, "started") != 1 {
						t.Errorf("phases %q", got)
					}
				})
			})
		}
	}
}

// B5: a turn whose started cannot be recorded runs nothing of the bot but Begin, and has failed for good.
func TestStartedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the log is away")
		fails := true
		l := &watchedLog{before: func(context.Context, turnlog.Entry) error {
			if fails {
				return lost
			}
			return nil
		}}
		w := newWorld()
		bot := w.Start(t, agent(), Options{TurnLog: registered(l)})
		var heard diary
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, &orchestrator.CallOptions{OnEvent: heard.Note})
		wantErr(t, err, lost)
		wantOp(t, err, "log")
		if p := orchestrator.Public(err); p.Status != 503 || !p.Retryable {
			t.Errorf("a client is told %+v", p)
		}
		if errors.Is(err, orchestrator.ErrIndeterminate) || heard.Kinds() != "turn.started turn.failed" {
			t.Errorf("told %v, after %s", err, heard.Kinds())
		}
		wantRow(t, w, snapshot.Ended)
		fails = false
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
			t.Errorf("recovered %s, %v", outcome, err)
		}
		wantRow(t, w, "")
		all := l.wantPhases(t, "started settled(error)")
		if reason := ended(all[1]).Reason; !strings.Contains(reason, lost.Error()) {
			t.Errorf("reason %q", reason)
		}
	})
}

// A drain has no caller to tell. The run is tried again later.
func TestStartedFailsUnderRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		w := newWorld()
		l.crash(t, w, "tool")
		l.before = func(context.Context, turnlog.Entry) error { return turnlog.ErrRefused }
		bot := w.Start(t, agent(), Options{TurnLog: registered(l)})
		if _, err := bot.Recover(t.Context(), "s"); !errors.Is(err, turnlog.ErrRefused) {
			t.Errorf("recovered: %v", err)
		}
		if runs := wantRuns(t, bot, 1); runs[0].Status != snapshot.Waiting || runs[0].Pause <= 0 {
			t.Errorf("the run is %s, due in %v", runs[0].Status, runs[0].Pause)
		}
		l.before = nil
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
			t.Error(err)
		}
	})
}

// B17, B19: times grow by a millisecond although the clock stands still.
func TestStampsOfAFrozenClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { _ = t.Record(ctx, turnlog.ToolReceived, "x") })
			}
			all.Wait()
			return nil
		}}}}
		execute(t, newWorld().Start(t, d, Options{TurnLog: l}), Input{Text: "a"})
		all := l.entries(t)
		if len(all) != 52 {
			t.Errorf("%d entries", len(all))
		}
		for i, e := range all[1:] {
			if e.At.Sub(all[i].At) < time.Millisecond {
				t.Errorf("entry %d is %v after the one before", i+1, e.At.Sub(all[i].At))
			}
		}
	})
}

// B20: whoever continues a run records later than its owner did, also if that owner recorded faster than one phase a
// millisecond, and saved then.
func TestStampsFollowTheSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		w := newWorld()
		fast := func(die func()) Def {
			d := agent()
			model, tool := d.Intents["model"], d.Intents["tool"]
			model.Run = func(ctx context.Context, t *Turn) error {
				for range 5000 {
					if err := t.Record(ctx, turnlog.LLMComplete, nil); err != nil {
						return err
					}
				}
				return nil
			}
			if die != nil {
				tool.Run = func(context.Context, *Turn) error { die(); return errDead }
			}
			d.Intents = Intents{"model": model, "tool": tool}
			return d
		}
		grave := &grave{World: w}
		ends := grave.Ends()
		bot, err := orchestrator.New(fast(grave.Die), ends.Checkpoints, &Options{
			Snapshots: ends.Snapshots, TurnLog: registered(l), Logger: quiet(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil); err == nil {
			t.Fatal("it did not die")
		}
		w.FreeUp(t, bot.Name())
		if _, err := w.Start(t, fast(nil), Options{TurnLog: registered(l)}).Resume(t.Context(), "s", nil); err != nil {
			t.Fatal(err)
		}
		all := l.entries(t)
		got := phasesOf(all[5000:])
		if want := "llm-complete tool-dispatched peer-call tool-received settled(complete)"; got != want {
			t.Errorf("the last phases are %q", got)
		}
	})
}

// B27, B46: each way in which a turn ends.
func TestEndsOfTurns(t *testing.T) {
	boom := errors.New("boom")
	in := Input{RequestID: "r", Text: "a"}
	hangs := func(ctx context.Context, _ *Turn) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for _, c := range []struct {
		name, want, reason string
		run                func(context.Context, *Turn) error
		timeout            time.Duration
		err                error
		leaves             bool // no snapshot store
	}{
		{"complete", "started settled(complete)", "", say("x"), 0, nil, false},
		{"error", "started settled(error)", "boom", func(context.Context, *Turn) error { return boom }, 0, boom, false},
		{"timeout", "started settled(timeout)", "Limits.TurnTimeout", hangs, time.Second, orchestrator.ErrTurnTimeout, false},
		{"complete, volatile", "started settled(complete)", "", say("x"), 0, nil, true},
		{"error, volatile", "started settled(error)", "boom", func(context.Context, *Turn) error { return boom }, 0, boom, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				d := Def{Name: "echo", Intents: Intents{"echo": {Run: c.run}}}
				o := Options{
					TurnLog: l, Logger: quiet(), Limits: orchestrator.Limits{TurnTimeout: c.timeout},
					Snapshots: new(snapshot.Memory),
				}
				if c.leaves {
					o.Snapshots = nil
				}
				bot, err := orchestrator.New(d, new(checkpoint.Memory), &o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := bot.Execute(t.Context(), "s", in, nil); !errors.Is(err, c.err) {
					t.Errorf("got %v", err)
				}
				all := l.wantPhases(t, c.want)
				if reason := ended(all[len(all)-1]).Reason; !strings.Contains(reason, c.reason) ||
					c.reason == "" && reason != "" {
					t.Errorf("reason %q", reason)
				}
				// The same input again is a repeat, or a run that begins anew.
				_, _ = bot.Execute(t.Context(), "s", in, nil)
				if c.err == nil {
					l.wantPhases(t, c.want)
				} else {
					l.wantPhases(t, c.want+" "+c.want)
				}
			})
		})
	}
}

// B41, B42, B43: the body sees its context end at once. Abandon returns after the end is recorded, and the event comes
// after that.
func TestCancelWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var mu sync.Mutex
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		l := new(watchedLog)
		l.before = func(_ context.Context, e turnlog.Entry) error {
			if e.Phase == turnlog.Settled {
				time.Sleep(300 * time.Millisecond)
				note("settled")
			}
			return nil
		}
		at := make(chan struct{})
		d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, _ *Turn) error {
			close(at)
			<-ctx.Done()
			note("context ended")
			return context.Cause(ctx)
		}}}}
		w := newWorld()
		bot := w.Start(t, d, Options{TurnLog: l})
		defer bot.Subscribe(func(ev Event) {
			if ev.Kind == orchestrator.TurnFailed && errors.Is(ev.Err, orchestrator.ErrAbandoned) {
				note("turn.failed")
			}
		})()
		told := make(chan error)
		go func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
			told <- err
		}()
		<-at
		runs := wantRuns(t, bot, 1)
		start := time.Now()
		abandoned := make(chan struct{})
		go func() {
			defer close(abandoned)
			if ended, err := bot.Abandon(t.Context(), "s", runs[0].ID); !ended || err != nil {
				t.Errorf("abandoned %t, %v", ended, err)
			}
			note("Abandon returns")
		}()
		wantErr(t, <-told, orchestrator.ErrIndeterminate, orchestrator.ErrAbandoned)
		if took := time.Since(start); took >= 300*time.Millisecond {
			t.Errorf("the body has ended after %v", took)
		}
		<-abandoned
		if want := []string{"context ended", "settled", "turn.failed", "Abandon returns"}; !slices.Equal(order, want) {
			t.Errorf("order %q", order)
		}
		wantRuns(t, bot, 0)
		l.wantPhases(t, "started settled(cancelled)")

		// B45: what has ended, or was never there, has no second end, and no event.
		for _, run := range []string{runs[0].ID, "unknown"} {
			if ended, err := bot.Abandon(t.Context(), "s", run); ended || err != nil {
				t.Errorf("abandoned %t, %v", ended, err)
			}
		}
		l.wantPhases(t, "started settled(cancelled)")
		if len(order) != 4 {
			t.Errorf("order %q", order)
		}
	})
}

// A log that hangs holds up Abandon for SettleTimeout. What it did not take is found later.
func TestAbandonWithHungLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		w := newWorld()
		l.crash(t, w, "tool")
		l.before = func(ctx context.Context, _ turnlog.Entry) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		bot := w.Start(t, agent(), Options{
			TurnLog: registered(l), Limits: orchestrator.Limits{SettleTimeout: time.Second},
		})
		run := wantRuns(t, bot, 1)[0].ID
		start := time.Now()
		if ended, err := bot.Abandon(t.Context(), "s", run); !ended || err != nil {
			t.Errorf("abandoned %t, %v", ended, err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("Abandon took %v", took)
		}
		wantRow(t, w, snapshot.Ended)
		l.before = nil
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
			t.Errorf("recovered %s, %v", outcome, err)
		}
		wantRow(t, w, "")
		l.wantPhases(t, "started llm-complete settled(cancelled)")
	})
}

// A settled turn whose end cannot be recorded is settled. Its reply is handed over after the end was recorded.
func TestSettledNotLogged(t *testing.T) {
	for _, then := range []string{"Recover", "Execute", "Resume"} {
		t.Run(then, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				away := func(_ context.Context, e turnlog.Entry) error {
					if e.Phase == turnlog.Settled {
						return turnlog.ErrRefused
					}
					return nil
				}
				l.before = away
				var delivered []string
				d := agent()
				d.Deliver = func(_ context.Context, res *Result) error {
					if l.before != nil {
						t.Error("the reply is handed over before its end is recorded")
					}
					delivered = append(delivered, res.Input.Text)
					return nil
				}
				w := newWorld()
				bot := w.Start(t, d, Options{TurnLog: registered(l)})
				execute(t, bot, Input{Text: "a"})
				wantRow(t, w, snapshot.Running)
				_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
				if !errors.Is(err, orchestrator.ErrUnavailable) {
					t.Errorf("the next input: %v", err)
				}
				l.before = nil
				want := []string{"a"}
				switch then {
				case "Recover":
					if outcome, err := bot.Recover(t.Context(), "s"); outcome != "delivered" || err != nil {
						t.Errorf("recovered %s, %v", outcome, err)
					}
				case "Execute":
					execute(t, bot, Input{Text: "b"})
					want = []string{"a", "b"}
				case "Resume":
					if _, err := bot.Resume(t.Context(), "s", nil); !errors.Is(err, orchestrator.ErrNothingToResume) {
						t.Errorf("resumed: %v", err)
					}
				}
				if !slices.Equal(delivered, want) {
					t.Errorf("delivered %q", delivered)
				}
				wantRow(t, w, "")
				const phases = "started llm-complete tool-dispatched peer-call tool-received settled(complete)"
				l.wantPhases(t, strings.TrimSpace(strings.Repeat(phases+" ", len(want))))
			})
		})
	}
}

// B32: what is no JSON is refused before the log sees it, and the turn goes on.
func TestRecordRefuses(t *testing.T) {
	l := new(watchedLog)
	var kept *Turn
	d := Def{
		Name: "echo",
		Begin: func(ctx context.Context, turn *Turn) error {
			if turn.Record(ctx, turnlog.LLMComplete, nil) == nil {
				t.Error("Record in Begin")
			}
			return nil
		},
		Intents: Intents{"echo": {Run: func(ctx context.Context, turn *Turn) error {
			cycle := map[string]any{}
			cycle["self"] = cycle
			for _, state := range []any{
				func() {}, make(chan int), math.NaN(), cycle, strings.Repeat("x", turnlog.MaxState),
			} {
				wantErr(t, turn.Record(ctx, turnlog.LLMComplete, state), turnlog.ErrState)
			}
			for _, phase := range []string{"", "nope", turnlog.Started, turnlog.Settled, strings.Repeat("p", 129)} {
				wantErr(t, turn.Record(ctx, phase, nil), turnlog.ErrPhase)
			}
			kept = turn
			return turn.Record(ctx, turnlog.LLMComplete, map[string]any{"a": map[string]any{"b": []int{1, 2}}})
		}}},
	}
	execute(t, newWorld().Start(t, d, Options{TurnLog: l}), Input{Text: "a"})
	all := l.wantPhases(t, "started llm-complete settled(complete)")
	if want := `{"a":{"b":[1,2]}}`; !turnlog.Same(all[1].State, json.RawMessage(want)) {
		t.Errorf("state %s", all[1].State)
	}
	if kept.Record(t.Context(), turnlog.LLMComplete, nil) == nil {
		t.Error("Record after the function has returned")
	}
	if err := new(Turn).Record(t.Context(), turnlog.LLMComplete, nil); err != nil {
		t.Errorf("a Turn made by hand: %v", err)
	}
	l.wantPhases(t, "started llm-complete settled(complete)")
}

// The option Respond says what the log has as the reply. A reply that is too large is left out.
func TestRespond(t *testing.T) {
	l := new(watchedLog)
	d := agent()
	d.Respond = func(res *Result) any { return map[string]int{"said": len(res.State.Said)} }
	execute(t, newWorld().Start(t, d, Options{TurnLog: registered(l)}), Input{Text: "a"})
	all := l.entries(t)
	if got := ended(all[len(all)-1]).Respond; !turnlog.Same(got, json.RawMessage(`{"said":2}`)) {
		t.Errorf("respond %s", got)
	}
	for name, respond := range map[string]func(*Result) any{
		"too large": func(*Result) any { return strings.Repeat("x", turnlog.MaxState) },
		"a panic":   func(*Result) any { panic("boom") },
		"no JSON":   func(*Result) any { return func() {} },
		"too deep": func(*Result) any {
			return json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
		},
		"no text":   func(*Result) any { return json.RawMessage(`"\ud800"`) },
		"no number": func(*Result) any { return json.RawMessage("1e400000") },
	} {
		t.Run(name, func(t *testing.T) {
			l := new(watchedLog)
			d := agent()
			d.Respond = respond
			w := newWorld()
			execute(t, w.Start(t, d, Options{TurnLog: registered(l)}), Input{Text: "a"})
			all := l.entries(t)
			end := ended(all[len(all)-1])
			if end.TurnState != turnlog.Complete || end.Reason == "" || string(end.Respond) != "null" {
				t.Errorf("settled %+v", end)
			}
			wantRow(t, w, "")
		})
	}
}

// An input that no log takes is refused before anything runs.
func TestInputForTheLog(t *testing.T) {
	l := new(watchedLog)
	d := echo()
	bot := newWorld().Start(t, d, Options{TurnLog: l, Limits: orchestrator.Limits{Input: 4 << 20}})
	most := turnlog.MaxState - 16<<10 - 2
	execute(t, bot, Input{Text: strings.Repeat("x", most)})
	_, err := bot.Execute(t.Context(), "s", Input{Text: strings.Repeat("x", most+1)}, nil)
	if _, ok := errors.AsType[*orchestrator.InputError](err); !ok {
		t.Errorf("got %v", err)
	}
	if all := l.entries(t); len(all) != 2 || len(all[0].State) < most {
		t.Errorf("%d entries", len(all))
	}
}

// A run that another process has saved without a turn log gets a beginning and an end.
func TestLogAdoptedLater(t *testing.T) {
	for _, then := range []string{"Resume", "Abandon"} {
		t.Run(then, func(t *testing.T) {
			w := newWorld()
			w.Crash(t, func(die func()) Def {
				d := agent()
				d.Intents["tool"] = Intent{
					Next: orchestrator.End,
					Run:  func(context.Context, *Turn) error { die(); return errDead },
				}
				return d
			}, Input{Text: "a"})
			l := new(watchedLog)
			bot := w.Start(t, agent(), Options{TurnLog: registered(l)})
			if then == "Abandon" {
				if err := abandon(t, bot, "s"); err != nil {
					t.Fatal(err)
				}
				l.wantPhases(t, "started settled(cancelled)")
				return
			}
			if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
				t.Fatal(err)
			}
			l.wantPhases(t, "started tool-dispatched peer-call tool-received settled(complete)")
		})
	}
}

// A process without a turn log ends a run, and does not delete it. The log has a beginning and an end all the same.
func TestEndedWithoutLog(t *testing.T) {
	w := newWorld()
	keeps := faulttest.On(func(context.Context, faulttest.Call, func(context.Context) error) error {
		return errors.New("not deleted")
	}, "Delete")
	l := new(watchedLog)
	for _, fails := range []bool{true, false} {
		d := Def{Name: "agent", Intents: Intents{"echo": {Run: func(context.Context, *Turn) error {
			if fails {
				return errors.New("boom")
			}
			return nil
		}}}}
		o := Options{Snapshots: faulttest.Snapshots(w.Snapshots, keeps), Logger: quiet()}
		bot, err := orchestrator.New(d, faulttest.Checkpoints(w.Checkpoints, keeps), &o)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: fmt.Sprint(fails)}, nil)
		next := w.Start(t, agent(), Options{TurnLog: registered(l)})
		if outcome, err := next.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
			t.Errorf("recovered %s, %v", outcome, err)
		}
		wantRow(t, w, "")
	}
	l.wantPhases(t, "started settled(error) started settled(complete)")
}
