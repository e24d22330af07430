package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Every other run is left alone: nothing is written, and its owner is not disturbed.
func TestUnparkNothingElse(t *testing.T) {
	for _, status := range []snapshot.Status{snapshot.Running, snapshot.Waiting, snapshot.Suspended, snapshot.Ended} {
		w := newWorld()
		bot := w.Start(t, echo(), Options{})
		k := snapshot.Key{Orchestrator: "echo", Session: "s"}
		r := snapshot.Run{
			Key: k, ID: "run", Attempt: 3, Status: status, Fence: lock.Fence{Epoch: 1, Nonce: "n"},
			Payload: []byte(`{"v":1}`),
		}
		if _, err := w.Snapshots.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		kept := func() snapshot.Run {
			r, err := snapshot.Load(t.Context(), w.Snapshots, snapshot.Query{Key: k})
			if r.Age = 0; err != nil {
				t.Fatal(err)
			}
			return r
		}
		before := kept()
		unpark(t, bot, false)
		if now := kept(); !reflect.DeepEqual(now, before) {
			t.Errorf("%s: %+v became %+v", status, before, now)
		}
	}
	w := newWorld()
	bot := w.Start(t, echo(), Options{})
	unpark(t, bot, false)
	for c, err := range w.Checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "echo"}) {
		t.Errorf("a session began: %v, %v", c, err)
	}
	if _, err := bot.Unpark(t.Context(), ""); err == nil {
		t.Error("a session without a name")
	}
	unpark(t, worldOf(w.Checkpoints, nil).Start(t, echo(), Options{}), false)
}

// The owner of a run that is at work goes on.
func TestUnparkLive(t *testing.T) {
	w := newWorld()
	d, started := hanging()
	bot, other := w.Start(t, d, Options{}), w.Start(t, d, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := bot.Execute(ctx, "s", Input{Text: "a"}, nil)
		done <- err
	}()
	<-started
	for _, b := range []*Bot{bot, other} {
		unpark(t, b, false)
	}
	select {
	case err := <-done:
		t.Errorf("the turn ended: %v", err)
	default:
	}
	cancel()
	wantErr(t, <-done, context.Canceled)
	if err := abandon(t, bot, "s"); err != nil {
		t.Error(err)
	}
	unpark(t, bot, false)
}

// Of a damaged run Unpark says so, and writes nothing. Abandon ends it.
func TestUnparkDamaged(t *testing.T) {
	w := newWorld()
	damaged := &spoiltRuns{Store: w.Snapshots}
	bot := worldOf(w.Checkpoints, damaged).Start(t, steps(nil), once1)
	w.Park(t, bot)
	before := wantRuns(t, bot, 1)[0]
	damaged.on.Store(true)
	_, err := bot.Unpark(t.Context(), "s")
	wantErr(t, err, snapshot.ErrDamaged)
	damaged.on.Store(false)
	if now := wantRuns(t, bot, 1)[0]; now.Fence != before.Fence || now.Status != snapshot.Parked {
		t.Errorf("%+v became %+v", before, now)
	}
}

// An owner that has gone on with the run stops before it says so, and its lease expires. It says so after Unpark has
// found the run parked, and before Unpark has made the run its own. Then the run waits, and its owner is fenced off.
func TestUnparkAfterLateWrite(t *testing.T) {
	w := newWorld()
	w.Park(t, w.Start(t, steps(nil), once1))
	late := sync.OnceFunc(func() {
		r := wantRuns(t, w.Start(t, steps(nil), Options{}), 1)[0]
		r.Seq++
		r.Status, r.Attempt = snapshot.Running, 1
		r.Payload = nil
		if err := w.Snapshots.Save(t.Context(), r); err != nil {
			t.Error(err)
		}
	})
	runs := faulttest.Snapshots(w.Snapshots, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			late()
			return next(ctx)
		}, "Adopt"))
	bot := worldOf(w.Checkpoints, runs).Start(t, steps(nil), Options{})
	unpark(t, bot, false)
	if r := wantRuns(t, bot, 1)[0]; r.Status != snapshot.Waiting || r.Attempt != 1 {
		t.Errorf("the run is %+v", r)
	}
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Error(outcome, err)
	}
}

// A ledger that is away keeps a run parked. The next call makes it due.
func TestUnparkWithoutLedger(t *testing.T) {
	s := newShop()
	s.Crash(t, diesPaying(s, orchestrator.OnceOptions[string]{}), Input{Text: "shoes"})
	pays := single(pays(s, orchestrator.OnceOptions[string]{}))
	wantParked(t, s.Start(t, pays, once1))
	away := s
	away.Ledger = faulttest.Ledger(s.Ledger, faulttest.On(
		func(context.Context, faulttest.Call, func(context.Context) error) error { return ledger.ErrRefused },
		"AdoptEffects"))
	synctest.Test(t, func(t *testing.T) {
		if unparked, err := away.Start(t, pays, Options{}).Unpark(t.Context(), "s"); unparked || err == nil {
			t.Errorf("%t, %v", unparked, err)
		}
	})
	unpark(t, s.Start(t, pays, Options{}), true)
}

// A spoiltRuns is a store in which damage shows in a whole row, while on is set.
type spoiltRuns struct {
	snapshot.Store
	on atomic.Bool
}

func (d *spoiltRuns) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range d.Store.Runs(ctx, q) {
			if d.on.Load() && !q.Brief {
				err = &snapshot.DamagedError{Key: r.Key, Reason: "payload"}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// An answer for an effect of a parked run makes it due: for the drain, which looks at what was answered, or at all runs
// in its first pass; and for the next input. A run that fails after that is parked again, and the answer is used up.
func TestAnsweredParkedRun(t *testing.T) {
	pay := orchestrator.OnceOptions[string]{}
	limits := orchestrator.Limits{Attempts: 1, DeadAfter: -1}
	drains := func(t *testing.T, bot *Bot) {
		if due := recoverable(t, bot, true); !slices.Equal(due, []string{"s"}) {
			t.Errorf("due: %q", due)
		}
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
			t.Error(outcome, err)
		}
	}
	for name, goesOn := range map[string]func(t *testing.T, s shop, bot *Bot){
		"a pass": func(t *testing.T, _ shop, bot *Bot) { drains(t, bot) },
		"the first pass": func(t *testing.T, s shop, _ *Bot) {
			time.Sleep(time.Hour)
			drains(t, s.Start(t, single(pays(s, pay)), Options{Limits: limits}))
		},
		"an input": func(t *testing.T, _ shop, bot *Bot) { execute(t, bot, Input{Text: "socks"}) },
		"a resume": func(t *testing.T, _ shop, bot *Bot) {
			if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
		},
		"a run that fails again": func(t *testing.T, s shop, _ *Bot) {
			bot := s.Start(t, single(func(ctx context.Context, turn *Turn) error {
				return errors.Join(errBoom, pays(s, pay)(ctx, turn))
			}), Options{Limits: limits})
			_, err := bot.Recover(t.Context(), "s")
			wantErr(t, err, errBoom)
			if r := wantRuns(t, bot, 1)[0]; r.Attempt != 1 || r.Status != snapshot.Waiting {
				t.Errorf("the run is %+v", r)
			}
			time.Sleep(time.Minute)
			wantParked(t, bot)
			for range 20 { // also when a pass looks at all runs
				if due := recoverable(t, bot, true); len(due) > 0 {
					t.Errorf("due again: %q", due)
				}
				time.Sleep(time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				s.Crash(t, diesPaying(s, pay), Input{Text: "shoes"})
				bot := s.Start(t, single(pays(s, pay)), Options{Limits: limits})
				wantParked(t, bot)
				for range 2 {
					if due := recoverable(t, bot, true); len(due) > 0 {
						t.Errorf("due before an answer: %q", due)
					}
				}
				_, err := bot.Execute(t.Context(), "s", Input{Text: "socks"}, nil)
				wantErr(t, err, orchestrator.ErrParked)
				time.Sleep(time.Second)
				landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
				if err := ledger.Resolve(t.Context(), s.Ledger, s.Effect(t).ID, landed); err != nil {
					t.Fatal(err)
				}
				goesOn(t, s, bot)
			})
		})
	}
}

// Many parked runs cost a pass nothing. The first one lists them once, and asks once what was answered since.
func TestParkedCost(t *testing.T) {
	runs, effects := &readRuns{Store: new(snapshot.Memory)}, &readEffects{Ledger: new(ledger.Memory)}
	d := single(func(context.Context, *Turn) error { return nil })
	for i := range 100 {
		suspend(t, runs, effects, d.Name, fmt.Sprint(i), doubting("effect 7"))
		change(t, runs, d.Name, fmt.Sprint(i), snapshot.Parked)
	}
	bot := worldOf(new(checkpoint.Memory), runs).Start(t, d, Options{
		Ledger: effects,
		Limits: orchestrator.Limits{DeadAfter: -1},
	})
	for _, pass := range []struct {
		name          string
		all           bool
		runs, effects int
	}{{"the first for all", true, 100, 1}, {"for what is due", false, 0, 0}, {"another for all", true, 0, 1}} {
		runs.Queries, runs.Reads, runs.Payloads, effects.queries = nil, 0, 0, nil
		if due := recoverable(t, bot, pass.all); len(due) > 0 {
			t.Errorf("%s: %q are due", pass.name, due)
		}
		if len(runs.Queries) != 1 || runs.Reads != pass.runs || runs.Payloads > 0 ||
			len(effects.queries) != pass.effects {
			t.Errorf("%s: %d runs and %d payloads in %d queries, and the ledger %d times", pass.name, runs.Reads,
				runs.Payloads, len(runs.Queries), len(effects.queries))
		}
	}
	answer(t, effects, "effect 7")
	if due := recoverable(t, bot, true); !slices.Equal(due, []string{"7"}) {
		t.Errorf("after an answer %q are due", due)
	}
}

// Parking is one line for each time: with the kind of the last error, and with its text if logs may have it. A run
// whose process has ended each time has no error.
func TestParkedIsLogged(t *testing.T) {
	for _, c := range []struct {
		level slog.Level
		logs  func(error) string
		dies  bool
		more  string
	}{
		{slog.LevelInfo, nil, false, " type=*errors.errorString\n"},
		{slog.LevelDebug, nil, false, " type=*errors.errorString err=boom\n"},
		{slog.LevelInfo, error.Error, false, " type=*errors.errorString err=boom\n"},
		{slog.LevelInfo, nil, true, " type=none\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			rounds, attempts := 2, 2
			if c.dies {
				rounds, attempts = 1, 1
			}
			away := new(atomic.Bool)
			away.Store(true)
			w := newWorld()
			log := new(bytes.Buffer)
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: c.level}))
			bot := w.Start(t, brokenSteps(away), Options{
				Logger: logger, LogError: c.logs, Limits: orchestrator.Limits{Attempts: attempts, DeadAfter: -1},
			})
			drain := func() {
				o := &bootdrain.Options{Logger: logger}
				if _, err := bootdrain.DrainInterrupted(t.Context(), bot, o); err != nil {
					t.Error(err)
				}
			}
			w.Crash(t, diesAtOnce, Input{Text: "a"})
			for times := 1; times <= rounds; times++ {
				for range attempts {
					time.Sleep(time.Minute)
					drain()
				}
				for range 3 {
					time.Sleep(time.Hour)
					_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
					wantErr(t, err, orchestrator.ErrParked)
					drain()
				}
				want := `level=WARN msg="run parked" orchestrator=steps session=s run=` + wantRuns(t, bot, 1)[0].ID +
					fmt.Sprint(" attempts=", attempts) + c.more
				if n := strings.Count(log.String(), want); n != times || strings.Count(log.String(), `"run parked`) != times {
					t.Errorf("%q is there %d times, want %d:\n%s", want, n, times, log)
				}
				unpark(t, bot, true)
			}
		})
	}
}
