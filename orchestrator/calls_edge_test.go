package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A repeat of an input that has settled tells its caller so, and of nothing else.
func TestEventsOfRepeat(t *testing.T) {
	in := Input{Text: "a", RequestID: "r"}
	bot := newWorld().Start(t, echo(), Options{})
	first := execute(t, bot, in)
	var l ears
	again, err := bot.Execute(t.Context(), "s", in, l.Options())
	if err != nil || !again.Replayed {
		t.Fatalf("%v, %v", again, err)
	}
	ev := l.WantOnly(t, orchestrator.TurnSettled)
	if ev.RunID != first.RunID || ev.RequestID != "r" || ev.Turn != first.Turn || ev.Session != "s" {
		t.Errorf("told of %+v, want the end of %+v", ev, first)
	}
}

// A call that begins nothing tells why. Resume writes nothing if there is nothing to resume.
func TestEventsOfRefused(t *testing.T) {
	w := newWorld()
	var asked []string
	w.Checkpoints = faulttest.Checkpoints(w.Checkpoints, func(
		ctx context.Context, c faulttest.Call, next func(context.Context) error,
	) error {
		asked = append(asked, c.Method)
		return next(ctx)
	})
	bot := w.Start(t, echo(), Options{})
	for name, c := range map[string]struct {
		call func(*orchestrator.CallOptions) error
		want error
	}{
		"nothing to resume": {func(o *orchestrator.CallOptions) error {
			_, err := bot.Resume(t.Context(), "s", o)
			return err
		}, orchestrator.ErrNothingToResume},
		"no session": {func(o *orchestrator.CallOptions) error {
			_, err := bot.Resume(t.Context(), "", o)
			return err
		}, nil},
		"no input": {func(o *orchestrator.CallOptions) error {
			_, err := bot.Execute(t.Context(), "", Input{Text: "a"}, o)
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var l ears
			err := c.call(l.Options())
			if err == nil {
				t.Fatal("no error")
			}
			if c.want != nil {
				wantErr(t, err, c.want)
			}
			ev := l.WantOnly(t, orchestrator.TurnRefused)
			wantErr(t, ev.Err, err)
		})
	}
	if slices.Contains(asked, "Claim") || slices.Contains(asked, "Append") {
		t.Errorf("a call that begins nothing has asked for %q", asked)
	}
}

// A call that has joined another one, and is cut off, tells that its turn goes on without it.
func TestEventsOfParted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		bot := newWorld().Start(t, single(func(context.Context, *Turn) error { <-goOn; return nil }), Options{})
		in := Input{Text: "a", RequestID: "r"}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		var l ears
		wg.Go(func() {
			_, err := bot.Execute(ctx, "s", in, l.Options())
			wantErr(t, err, orchestrator.ErrIndeterminate, errGone)
		})
		synctest.Wait()
		l.Forget() // those of the turn so far
		cancel(errGone)
		synctest.Wait()
		wantErr(t, l.WantOnly(t, orchestrator.TurnLeft).Err, orchestrator.ErrIndeterminate, errGone)
		close(goOn)
		wg.Wait()
	})
}

// The repeat of an input whose turn is suspended tells so. Another input is refused.
func TestEventsOfSuspendedRun(t *testing.T) {
	s := newShop()
	leaveInDoubt(t, s)
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{})
	for request, want := range map[string]orchestrator.EventKind{
		"r": orchestrator.TurnSuspended, "r 2": orchestrator.TurnRefused,
	} {
		var l ears
		_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes", RequestID: request}, l.Options())
		wantErr(t, err, orchestrator.ErrSuspended)
		wantErr(t, l.WantOnly(t, want).Err, orchestrator.ErrSuspended)
	}
}

// If a run in flight cannot be taken over, its own repeat does not know how it ends, and names it. Another input has
// begun nothing.
func TestTakeoverRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
		run := wantRuns(t, w.Start(t, steps(nil), Options{}), 1)[0].ID
		away := w
		away.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.Fail(snapshot.ErrRefused, "Adopt"))
		bot := away.Start(t, steps(nil), Options{})
		_, own := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
		_, other := bot.Execute(t.Context(), "s", Input{Text: "b", RequestID: "r 2"}, nil)
		wantErr(t, own, orchestrator.ErrIndeterminate, snapshot.ErrRefused)
		wantErr(t, other, snapshot.ErrRefused)
		if errors.Is(other, orchestrator.ErrIndeterminate) {
			t.Errorf("another input: %v", other)
		}
		if a, b := details(t, own).RunID, details(t, other).RunID; a != run || b != "" {
			t.Errorf("errors of the runs %q and %q, want %q and none", a, b, run)
		}
	})
}

// A turn that goes on after a crash knows what has run in it, and its Result when it has settled.
func TestRanOfResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		in := Input{Text: "a", RequestID: "r"}
		w.Crash(t, steps, in)
		d := steps(nil)
		var ran []string
		d.Intents["three"] = Intent{Next: orchestrator.End, Run: func(_ context.Context, t *Turn) error {
			ran = t.Ran
			return nil
		}}
		bot := w.Start(t, d, Options{})
		res := execute(t, bot, in)
		if want := []string{"one", "two"}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
		if again := execute(t, bot, in); res.SavedAt.IsZero() || !again.SavedAt.Equal(res.SavedAt) {
			t.Errorf("settled at %v, and %v when it is read", res.SavedAt, again.SavedAt)
		}
	})
}

// A turn that cannot begin because the process shuts down says so.
func TestBeginDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := echo()
		d.Begin = func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return context.Cause(ctx) }
		bot := newWorld().Start(t, d, Options{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
			wantErr(t, err, orchestrator.ErrShuttingDown)
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = bot.Shutdown(ctx)
		wg.Wait()
	})
}
