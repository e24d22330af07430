package orchestrator_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A parked run is due again after one call, and all its attempts are. A former owner writes nothing more. A second call
// does nothing.
func TestUnpark(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		away := new(atomic.Bool)
		away.Store(true)
		bot := w.Start(t, brokenSteps(away), once1)
		w.Park(t, bot)
		_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
		wantErr(t, err, orchestrator.ErrParked)
		if due := recoverable(t, bot, false); len(due) > 0 {
			t.Errorf("due while parked: %q", due)
		}
		former := wantRuns(t, bot, 1)[0]

		unpark(t, bot, true)
		if r := wantRuns(t, bot, 1)[0]; r.Status != snapshot.Waiting || r.Attempt != 0 || r.Pause > 0 {
			t.Errorf("the run is %+v", r)
		}
		if due := recoverable(t, bot, false); !slices.Equal(due, []string{"s"}) {
			t.Errorf("due: %q", due)
		}
		former.Seq += 10
		wantErr(t, w.Snapshots.Save(t.Context(), former), lock.ErrFenced)
		unpark(t, bot, false)

		_, err = bot.Recover(t.Context(), "s")
		wantErr(t, err, errBoom) // not parked at once
		if r := wantRuns(t, bot, 1)[0]; r.Status != snapshot.Waiting || r.Attempt != 1 {
			t.Errorf("the run is %+v", r)
		}
		away.Store(false)
		res, err := w.Start(t, steps(nil), Options{}).Resume(t.Context(), "s", nil)
		if err != nil || len(res.Steps) != 3 {
			t.Errorf("%+v, %v", res, err)
		}
		unpark(t, bot, false)
	})
}

// A program without the Definition unparks by the name of the bot.
func TestUnparkByName(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		bot := w.Start(t, steps(nil), once1)
		w.Park(t, bot)
		o := &Options{Snapshots: w.Snapshots, Logger: quiet()}
		for _, want := range []bool{true, false} {
			yes, err := orchestrator.Unpark(t.Context(), bot.Name(), "s", w.Checkpoints, o)
			if err != nil || yes != want {
				t.Errorf("unparked %t, %v; want %t", yes, err, want)
			}
		}
		if outcome, err := bot.Recover(t.Context(), "s"); err != nil || outcome != "settled" {
			t.Errorf("%s, %v", outcome, err)
		}
		if _, err := orchestrator.Unpark(t.Context(), "", "s", w.Checkpoints, o); err == nil {
			t.Error("no name")
		}
		if _, err := orchestrator.Unpark(t.Context(), bot.Name(), "s", w.Checkpoints, nil); err == nil {
			t.Error("no snapshot store")
		}
	})
}

// Of calls at once in two processes one makes the run due. Beside calls that resume or abandon the run, it settles once
// or not at all, and no call is told of anything else.
func TestUnparkBesideOthers(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		for round := range 5 {
			bots := []*Bot{w.Start(t, steps(nil), once1), w.Start(t, steps(nil), once1)}
			w.Crash(t, diesAtOnce, Input{Text: fmt.Sprint(round)})
			wantParked(t, bots[0])
			var unparked, settled, ended atomic.Int64
			var calls sync.WaitGroup
			for i := range 6 {
				calls.Go(func() {
					yes, err := bots[i%2].Unpark(t.Context(), "s")
					if err != nil {
						t.Error(err)
					}
					if yes {
						unparked.Add(1)
					}
				})
			}
			if round > 0 {
				calls.Go(func() {
					_, err := bots[0].Resume(t.Context(), "s", &orchestrator.CallOptions{Force: true})
					switch {
					case err == nil:
						settled.Add(1)
					case errors.Is(err, orchestrator.ErrNothingToResume), errors.Is(err, orchestrator.ErrAbandoned),
						errors.Is(err, orchestrator.ErrIndeterminate):
					default:
						t.Error(err)
					}
				})
			}
			if round > 2 {
				calls.Go(func() {
					yes, err := bots[1].Abandon(t.Context(), "s", "")
					if err != nil {
						t.Error(err)
					}
					if yes {
						ended.Add(1)
					}
				})
			}
			calls.Wait()
			if unparked.Load() > 1 || round == 0 && unparked.Load() != 1 || settled.Load()+ended.Load() > 1 {
				t.Errorf("round %d: unparked %d times, settled %d, ended %d",
					round, unparked.Load(), settled.Load(), ended.Load())
			}
			if round == 0 {
				if outcome, err := bots[1].Recover(t.Context(), "s"); outcome != "settled" || err != nil {
					t.Error(outcome, err)
				}
			}
			wantRuns(t, bots[0], 0)
		}
	})
}
