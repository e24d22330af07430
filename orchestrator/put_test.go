package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A turn of Put stands with the others: it has a number, its input, events, phases and a delivery, and is repeated.
func TestPut(t *testing.T) {
	var delivered []string
	d := strict(t)
	d.Deliver = func(_ context.Context, res *Result) error {
		delivered = append(delivered, fmt.Sprintf("%d %s %d", res.Turn, res.Input.Kind, res.State.N))
		return nil
	}
	l := new(watchedLog)
	w := newWorld()
	bot := w.Start(t, d, Options{TurnLog: registered(l)})
	var events diary
	call := &orchestrator.CallOptions{OnEvent: events.Note}
	in := Input{RequestID: "r", Text: "seven", Origin: orchestrator.FromSystem, Kind: "create"}
	res, err := bot.Put(t.Context(), "s", orchestrator.NoTurns, in, add(7), call)
	if err != nil || res.Turn != 0 || res.State.N != 7 || res.Input.Kind != "create" || len(res.Steps) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := events.Kinds(); got != "turn.started delivered turn.settled" {
		t.Errorf("events %s", got)
	}
	l.wantPhases(t, "started settled(complete)")
	for _, version := range []int{orchestrator.NoTurns, orchestrator.AnyVersion, 1, 8} {
		again, err := bot.Put(t.Context(), "s", version, in, add(1), nil)
		if err != nil || !again.Replayed || again.RunID != res.RunID || again.State.N != 7 {
			t.Errorf("the repeat brought %+v, %v", again, err)
		}
	}
	_, err = bot.Execute(t.Context(), "s", in, nil)
	wantErr(t, err, orchestrator.ErrRequestReused)
	if res, err = bot.Put(t.Context(), "s", 1, Input{Kind: "add"}, add(1), nil); err != nil || res.Turn != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if got := strings.Join(delivered, ", "); got != "0 create 7, 1 add 8" {
		t.Errorf("delivered %s", got)
	}
	wantRuns(t, bot, 0)
}

// A run that is in flight is finished first, and is a version.
func TestPutAfterRun(t *testing.T) {
	w := newWorld()
	w.Crash(t, func(die func()) Def {
		d := echo()
		d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
		return d
	}, Input{RequestID: "r", Text: "hi"})
	rejects := w.Start(t, echo(), Options{OnInterrupted: orchestrator.Reject})
	_, err := rejects.Put(t.Context(), "s", orchestrator.AnyVersion, Input{}, add(1), nil)
	wantErr(t, err, orchestrator.ErrInterrupted)
	bot := w.Start(t, echo(), Options{})
	_, err = bot.Put(t.Context(), "s", orchestrator.AnyVersion, Input{RequestID: "r", Text: "hi"}, add(1), nil)
	wantErr(t, err, orchestrator.ErrRequestReused)
	_, err = bot.Put(t.Context(), "s", orchestrator.NoTurns, Input{}, add(1), nil)
	if v, ok := errors.AsType[*orchestrator.VersionError](err); !ok || v.Now != 1 {
		t.Errorf("%v", err)
	}
	res, err := bot.Put(t.Context(), "s", 1, Input{}, add(1), nil)
	if err != nil || res.Turn != 1 || res.State.N != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	wantSaid(t, res.State, "hi")
}

// What a turn would refuse is refused, and nothing is left of it.
func TestPutRefused(t *testing.T) {
	errOwn := errors.New("mine")
	fails := func(err error) func(context.Context, *Turn) error {
		return func(context.Context, *Turn) error { return err }
	}
	is := func(err error) bool { _, ok := errors.AsType[*orchestrator.InputError](err); return ok }
	for name, c := range map[string]struct {
		session string
		version int
		in      Input
		fn      func(context.Context, *Turn) error
		want    func(error) bool
	}{
		"no session":  {"", 0, Input{}, add(1), is},
		"no version":  {"s", -2, Input{}, add(1), is},
		"a bad kind":  {"s", 0, Input{Kind: "a b"}, add(1), is},
		"no function": {"s", 0, Input{}, nil, func(err error) bool { return err != nil }},
		"an error": {"s", 0, Input{RequestID: "r"}, fails(errOwn), func(err error) bool {
			return errors.Is(err, errOwn)
		}},
		"a bad input": {"s", 0, Input{}, fails(&orchestrator.InputError{}), is},
		"another version": {"s", 2, Input{}, add(1), func(err error) bool {
			return orchestrator.Public(err).Status == 409
		}},
		"a panic": {"s", 0, Input{}, func(context.Context, *Turn) error { panic("no") }, func(err error) bool {
			_, ok := errors.AsType[*orchestrator.PanicError](err)
			return ok
		}},
		"Once": {"s", 0, Input{}, func(ctx context.Context, t *Turn) error {
			pay := func(context.Context, string) (int, error) { return 1, nil }
			_, err := orchestrator.Once(ctx, t, "pay", pay, nil)
			return err
		}, func(err error) bool { return err != nil }},
		"a large state": {"s", 0, Input{RequestID: "r"}, func(_ context.Context, t *Turn) error {
			t.State.A = strings.Repeat("a", 2000)
			return nil
		}, func(err error) bool {
			_, ok := errors.AsType[*orchestrator.StateError](err)
			return ok
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			limits := orchestrator.Limits{State: 1000}
			bot := w.Start(t, strict(t), Options{Limits: limits, Ledger: new(ledger.Memory)})
			var events diary
			call := &orchestrator.CallOptions{OnEvent: events.Note}
			_, err := bot.Put(t.Context(), c.session, c.version, c.in, c.fn, call)
			if !c.want(err) || errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Errorf("got %v", err)
			}
			if got := events.Kinds(); got != "turn.refused" && got != "turn.started turn.failed" {
				t.Errorf("events %s", got)
			}
			if c.session == "" {
				return
			}
			wantRuns(t, bot, 0)
			if res, err := bot.Put(t.Context(), "s", orchestrator.NoTurns, c.in, add(1), nil); c.in.Kind == "" &&
				(err != nil || res.State.N != 1) {
				t.Errorf("afterwards %+v, %v", res, err)
			}
		})
	}
}

// A process dies before or after any call, or a reply is lost. The same request to another process counts once.
func TestPutCrashes(t *testing.T) {
	d := Def{Name: "bot", Intents: Intents{"never": {Run: say("never")}}}
	d.Deliver = func(context.Context, *Result) error { return nil }
	in := Input{RequestID: "r", Kind: "add"}
	type process = orchestratortest.Process[State]
	for _, step := range []string{
		"checkpoint.Claim", "snapshot.Runs", "turnlog.Record", "checkpoint.Append", "checkpoint.Mark", "Deliver",
	} {
		for how, plan := range map[string]func(*process){
			"before": func(p *process) { p.DieBefore(step, 1) }, "after": func(p *process) { p.DieAfter(step, 1) },
			"fails": func(p *process) { p.Fail(step, 1) }, "lost": func(p *process) { p.LoseReply(step, 1) },
		} {
			synctest.Test(t, func(t *testing.T) {
				w := orchestratortest.World{TurnLog: new(turnlog.Memory)}
				first := orchestratortest.Start(&w, d, nil)
				plan(first)
				calls := 0
				once := func(_ context.Context, t *Turn) error { calls++; t.State.N++; return nil }
				_, _ = first.Bot.Put(t.Context(), "s", orchestrator.AnyVersion, in, once, nil)
				if calls > 1 {
					t.Errorf("%s %s: %d calls", how, step, calls)
				}
				time.Sleep(time.Minute)
				second := orchestratortest.Start(&w, d, nil)
				res, err := second.Bot.Put(t.Context(), "s", orchestrator.AnyVersion, in, add(1), nil)
				if err != nil || res.State.N != 1 || res.Turn != 0 {
					t.Fatalf("%s %s: %+v, %v", how, step, res, err)
				}
				entries, err := w.TurnLog.Restore(t.Context(), res.RunID)
				// A process that dies before it settles leaves the beginning of an attempt.
				got := strings.TrimPrefix(phasesOf(entries), "started ")
				if err != nil || got != "settled(complete)" && got != "started settled(complete)" {
					t.Errorf("%s %s: phases %s, %v", how, step, got, err)
				}
			})
		}
	}
}
