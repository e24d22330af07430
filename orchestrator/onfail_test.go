package orchestrator_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// sorry settles a turn that failed with an apology.
func sorry(_ context.Context, t *Turn, _ error) error {
	t.State.Said = append(t.State.Said, "sorry")
	return nil
}

func failsWith(err error) func(context.Context, *Turn) error {
	return func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, "half a sentence")
		return err
	}
}

// OnFail settles a turn that failed with a state of its own. The turn says that it failed: in its Result, in the event,
// in its row, and to a repeat. What the function that failed has changed is not in it.
func TestOnFail(t *testing.T) {
	for _, snapshots := range []bool{true, false} {
		w, d := newWorld(), new(diary)
		ran := 0
		def := single(func(ctx context.Context, t *Turn) error {
			if ran++; t.Input.Text == "nonsense" {
				return failsWith(errDeclined)(ctx, t)
			}
			return say("hello")(ctx, t)
		})
		var seen error
		def.OnFail = func(ctx context.Context, t *Turn, err error) error { seen = err; return sorry(ctx, t, err) }
		o := Options{}
		if !snapshots {
			w.Snapshots = nil
		}
		bot := w.Start(t, def, o)
		in := Input{RequestID: "r", Text: "nonsense"}
		for replayed := range 2 {
			res, err := bot.Execute(t.Context(), "s", in, &orchestrator.CallOptions{OnEvent: d.Note})
			if err != nil {
				t.Fatal(err)
			}
			wantSaid(t, res.State, "sorry")
			if !res.Failed || res.Replayed != (replayed == 1) || ran != 1 {
				t.Errorf("%+v, ran %d times", res, ran)
			}
		}
		if e := details(t, seen); e.Op != "intent" || e.Intent != "work" || !errors.Is(seen, errDeclined) {
			t.Errorf("OnFail was told %v", seen)
		}
		if last := d.Events[len(d.Events)-1]; last.Kind != orchestrator.TurnSettled || !last.Failed || last.Err != nil {
			t.Errorf("the last event: %+v", last)
		}
		for res, err := range bot.Turns(t.Context(), "s") {
			if err != nil || !res.Failed {
				t.Errorf("%+v, %v", res, err)
			}
		}
		if res := execute(t, bot, Input{Text: "hi"}); res.Failed || res.Turn != 1 {
			t.Errorf("%+v", res)
		}
	}
}

// If OnFail does not settle the turn, the turn fails as without it.
func TestOnFailDeclines(t *testing.T) {
	for name, onFail := range map[string]func(context.Context, *Turn, error) error{
		"the error": func(_ context.Context, _ *Turn, err error) error { return err },
		"another":   func(context.Context, *Turn, error) error { return errTimeout },
		"a panic":   func(context.Context, *Turn, error) error { panic("no") },
		"a large one": func(_ context.Context, t *Turn, _ error) error {
			t.State.Said = []string{strings.Repeat("x", 1<<20)}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			def, asked := single(failsWith(errDeclined)), 0
			def.OnFail = func(ctx context.Context, t *Turn, err error) error { asked++; return onFail(ctx, t, err) }
			w := newWorld()
			bot := w.Start(t, def, Options{Limits: orchestrator.Limits{State: 1 << 10}})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			if err == nil || asked != 1 || len(turns(t, bot)) > 0 {
				t.Errorf("%v, asked %d times, turns %v", err, asked, turns(t, bot))
			}
			if name != "a large one" {
				wantErr(t, err, errDeclined)
			}
			wantRuns(t, bot, 0)
		})
	}
}

// OnFail is not asked while an effect is in doubt, if the caller has gone, and if the input was refused.
func TestOnFailNotAsked(t *testing.T) {
	asked := func(d Def) (Def, *int) {
		n := new(int)
		d.OnFail = func(context.Context, *Turn, error) error { *n++; return nil }
		return d, n
	}
	t.Run("doubt", func(t *testing.T) {
		for _, hides := range []bool{false, true} {
			s := newShop()
			s.Vendor.Fail = []error{errTimeout}
			pay := pays(s, orchestrator.OnceOptions[string]{Class: ledger.Ask})
			def, n := asked(single(func(ctx context.Context, t *Turn) error {
				err := pay(ctx, t)
				if hides {
					return errDeclined
				}
				return err
			}))
			_, err := s.Start(t, def, Options{}).Execute(t.Context(), "s", Input{}, nil)
			if wantErr(t, err, orchestrator.ErrSuspended); *n > 0 {
				t.Error("asked")
			}
		}
	})
	t.Run("gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		def, n := asked(single(func(context.Context, *Turn) error { cancel(); return errDeclined }))
		_, err := newWorld().Start(t, def, Options{}).Execute(ctx, "s", Input{}, nil)
		if wantErr(t, err, orchestrator.ErrIndeterminate); *n > 0 {
			t.Error("asked")
		}
	})
	t.Run("refused", func(t *testing.T) {
		def, n := asked(single(say("x")))
		def.Begin = func(context.Context, *Turn) error { return errDeclined }
		_, err := newWorld().Start(t, def, Options{}).Execute(t.Context(), "s", Input{}, nil)
		if wantErr(t, err, errDeclined); *n > 0 {
			t.Error("asked")
		}
	})
}

// Without a caller, OnFail is asked in place of parking the run.
func TestOnFailOfDrain(t *testing.T) {
	w := newWorld()
	w.Crash(t, func(die func()) Def {
		return single(func(context.Context, *Turn) error { die(); return nil })
	}, Input{RequestID: "r"})
	def := single(failsWith(errDeclined))
	def.Name, def.OnFail = "shop", sorry
	bot := w.Start(t, def, Options{Limits: orchestrator.Limits{Attempts: 3}})
	outcome, err := bot.Recover(t.Context(), "s")
	wantErr(t, err, errDeclined)
	if outcome != "" {
		t.Errorf("first: %s", outcome)
	}
	res, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil) // a caller is told at once
	if err != nil || !res.Failed {
		t.Fatalf("%+v, %v", res, err)
	}
	w.Crash(t, func(die func()) Def {
		d := single(func(context.Context, *Turn) error { die(); return nil })
		d.OnFail = sorry
		return d
	}, Input{RequestID: "q"})
	bot = w.Start(t, def, Options{Limits: orchestrator.Limits{Attempts: 2}})
	if outcome, err = bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("last: %s, %v", outcome, err)
	}
	if all := turns(t, bot); len(all) != 2 {
		t.Errorf("%v", all)
	}
}

// OnFail sees what the engine has refused too: a turn that goes round for ever, and one that takes too long.
func TestOnFailOfLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen error
		def := single(func(ctx context.Context, t *Turn) error {
			if t.Input.Text == "slow" {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		def.Iterate = true
		def.Route = func(context.Context, *Turn) (orchestrator.Next, error) { return orchestrator.To("work"), nil }
		def.OnFail = func(ctx context.Context, t *Turn, err error) error { seen = err; return sorry(ctx, t, err) }
		bot := newWorld().Start(t, def, Options{Limits: orchestrator.Limits{TurnTimeout: time.Minute}})
		for text, want := range map[string]error{
			"slow": orchestrator.ErrTurnTimeout, "round": orchestrator.ErrMaxIterations,
		} {
			res, err := bot.Execute(t.Context(), text, Input{Text: text}, nil)
			if err != nil || !res.Failed || !errors.Is(seen, want) {
				t.Errorf("%s: %+v, %v; OnFail was told %v", text, res, err, seen)
			}
			rounds := errors.Is(want, orchestrator.ErrMaxIterations)
			if rounds && !strings.Contains(seen.Error(), "Limits.Iterations is 100") {
				t.Errorf("it does not say what to set: %v", seen)
			}
		}
		if err := bot.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// An OnFail that goes on after its time is given up, and the run is left.
func TestOnFailHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		def := single(failsWith(errDeclined))
		def.OnFail = func(context.Context, *Turn, error) error { <-free; return nil }
		bot := newWorld().Start(t, def, Options{})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		close(free)
		if err := bot.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A process that dies in OnFail leaves the run, and the next one asks again.
func TestOnFailCrash(t *testing.T) {
	w := newWorld()
	w.Crash(t, func(die func()) Def {
		d := single(failsWith(errDeclined))
		d.OnFail = func(ctx context.Context, t *Turn, err error) error { die(); return sorry(ctx, t, err) }
		return d
	}, Input{RequestID: "r"})
	def := single(failsWith(errDeclined))
	def.OnFail = sorry
	res, err := w.Start(t, def, Options{}).Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	if err != nil || !res.Failed || res.Turn != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A call that was recorded under a name which changes with each attempt is made again by each crash. The log says so.
func TestStrayRecord(t *testing.T) {
	for each, want := range map[string]int{"same": 0, "other": 1} {
		s, log := newShop(), new(lockedBuffer)
		asks := func(each string, after func()) Def {
			return single(func(ctx context.Context, t *Turn) error {
				_, err := s.Vendor.Once(ctx, t, "shoes",
					orchestrator.OnceOptions[string]{Class: ledger.Pure, Each: each})
				after()
				return err
			})
		}
		s.Crash(t, func(die func()) Def { return asks("same", die) }, Input{})
		bot := s.Start(t, asks(each, func() {}), Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "a recorded call was made again"); n != want {
			t.Errorf("%s: %d lines in %s", each, n, log.String())
		}
	}
}
