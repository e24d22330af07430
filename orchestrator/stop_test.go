package orchestrator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Abandon and Delete end their own target, and nothing else.

// Without a snapshot store, Abandon knows only the runs of this process: the id of another run ends nothing.
func TestAbandonOfAnotherRun(t *testing.T) {
	d, started := hanging()
	bot := world{Checkpoints: new(checkpoint.Memory)}.Start(t, d, Options{})
	runs := make(chan string, 1)
	done := make(chan error)
	go func() {
		_, err := bot.Execute(t.Context(), "s", Input{}, &orchestrator.CallOptions{OnEvent: func(ev Event) {
			if ev.Kind == orchestrator.TurnStarted {
				runs <- ev.RunID
			}
		}})
		done <- err
	}()
	<-started
	if ended, err := bot.Abandon(t.Context(), "s", "another"); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	if ended, err := bot.Abandon(t.Context(), "s", <-runs); !ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	wantErr(t, <-done, orchestrator.ErrAbandoned)
}

// claimsOnHold holds a Claim back once it is armed.
func claimsOnHold(w world) (held world, arm func(), arrived, goOn chan struct{}) {
	arrived, goOn = make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	around := faulttest.On(func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		if armed.CompareAndSwap(true, false) {
			close(arrived)
			<-goOn
		}
		return next(ctx)
	}, "Claim")
	held = worldOf(faulttest.Checkpoints(w.Checkpoints, around), w.Snapshots)
	return held, func() { armed.Store(true) }, arrived, goOn
}

// A call of this process comes to own the session while Abandon or Delete waits for its claim. It ends at once, and its
// caller is told that the run was stopped.
func TestStopMeetsOwner(t *testing.T) {
	for name, stop := range map[string]func(context.Context, *Bot, string) error{
		"Abandon": func(ctx context.Context, bot *Bot, run string) error {
			ended, err := bot.Abandon(ctx, "s", run)
			if err == nil && !ended {
				err = errors.New("the run has not ended")
			}
			return err
		},
		"Delete": func(ctx context.Context, bot *Bot, _ string) error { return bot.Delete(ctx, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held, arm, arrived, goOn := claimsOnHold(newWorld())
				d, started := hanging()
				bot := held.Start(t, d, Options{})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-started; cancel() }()
				_, err := bot.Execute(ctx, "s", Input{Text: "a", RequestID: "r"}, nil)
				wantErr(t, err, orchestrator.ErrIndeterminate) // the run is left in flight
				run := wantRuns(t, bot, 1)[0].ID
				arm()
				told, resumed := make(chan error, 1), make(chan error, 1)
				go func() { told <- stop(t.Context(), bot, run) }()
				<-arrived
				go func() { _, err := bot.Resume(t.Context(), "s", nil); resumed <- err }()
				<-started
				close(goOn)
				if err := <-told; err != nil {
					t.Error(err)
				}
				at := time.Now()
				wantErr(t, <-resumed, orchestrator.ErrAbandoned)
				if took := time.Since(at); took > time.Second {
					t.Errorf("it went on for %v", took)
				}
			})
		})
	}
}

// Without a snapshot store, an Abandon that comes when the turn settles or is delivered ends nothing, and says so.
func TestLateAbandonWithoutSnapshots(t *testing.T) {
	for _, when := range []string{"Append", "Deliver"} {
		for _, anyRun := range []bool{false, true} {
			t.Run(when, func(t *testing.T) {
				var bot *Bot
				var run string
				asked := 0
				abandon := func(ctx context.Context) error {
					asked++
					id := run
					if anyRun {
						id = ""
					}
					if ended, err := bot.Abandon(t.Context(), "s", id); ended || err != nil {
						t.Errorf("ended %t, %v", ended, err)
					}
					return ctx.Err() // it is not cut off
				}
				w := world{Checkpoints: new(checkpoint.Memory)}
				d := echo()
				d.Intents = Intents{"echo": {Run: func(_ context.Context, t *Turn) error { run = t.RunID; return nil }}}
				if when == "Deliver" {
					d.Deliver = func(ctx context.Context, _ *Result) error { return abandon(ctx) }
				} else {
					w.Checkpoints = faulttest.Checkpoints(w.Checkpoints, faulttest.On(
						func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
							return errors.Join(abandon(ctx), next(ctx))
						}, "Append"))
				}
				bot = w.Start(t, d, Options{})
				execute(t, bot, Input{Text: "a"})
				execute(t, bot, Input{Text: "b"})
				if asked != 2 { // nothing was delivered again
					t.Errorf("asked %d times", asked)
				}
			})
		}
	}
}

// Abandon without a snapshot store does not end what is no turn.
func TestAbandonSparesCompact(t *testing.T) {
	var bot *Bot
	w := world{Checkpoints: new(checkpoint.Memory)}
	bot = w.Start(t, echo(), Options{Compaction: orchestrator.Compaction{
		Keep: 1, Run: func(ctx context.Context, _ orchestrator.Range) (orchestrator.Usage, error) {
			if ended, err := bot.Abandon(t.Context(), "s", ""); ended || err != nil {
				t.Errorf("ended %t, %v", ended, err)
			}
			return orchestrator.Usage{}, ctx.Err()
		},
	}})
	for range 3 {
		execute(t, bot, Input{Text: "a"})
	}
	if err := bot.Compact(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}
