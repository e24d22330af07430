package bootdrain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run is handed off. The watch of another process takes the run up at once, and not in a pass over all runs. The
// attempt that was cut short made no progress, and counts. With HOLDFAST_SOAK=1 that takes two seconds at most.
func handedOff(t *testing.T) {
	const soon = 2 * time.Second
	sites(t, func(t *testing.T, s site, w opened) {
		took := handOff(t, s, w, "s")
		if t.Logf("taken up after %v", took); soak() && took > soon {
			t.Errorf("taken up after %v, want %v", took, soon)
		}
	})
}

// handOff hands a run off, and returns the time until the intent starts again.
func handOff(t *testing.T, s site, w opened, session string) time.Duration {
	t.Helper()
	p := job{Do: execute, Site: s, Body: wait, Sessions: []string{session}, Text: "hello"}.start(t)
	p.hear(inFlight)
	p.goOn()
	p.hear(left)
	p.exit()
	exited := time.Now()

	var took time.Duration
	var running []snapshot.Run
	var b *bot
	b = w.start(t, func(ctx context.Context, _ *turn) error {
		took = time.Since(exited)
		for r, err := range b.Runs(ctx) {
			if err != nil {
				return err
			}
			running = append(running, r)
		}
		return nil
	})
	if r := wantRuns(t, b, 1)[0]; r.Status != snapshot.Waiting || r.Attempt != 1 {
		t.Errorf("after the handoff the run is %s in attempt %d", r.Status, r.Attempt)
	}
	done := errors.New("done")
	ctx, cancel := context.WithCancelCause(patience(t))
	defer cancel(nil)
	sum := make(outcomes)
	err := bootdrain.Watch(ctx, b, &bootdrain.Options{
		// The run that was handed off is due, so it does not wait for a pass over all runs.
		Every:  time.Hour,
		Logger: quiet,
		OnRun: func(r bootdrain.Run) {
			sum.add([]bootdrain.Run{r})
			cancel(done)
		},
	})
	if !errors.Is(err, done) || !sum.only("settled", 1) {
		t.Fatalf("%v, %v", sum, err)
	}
	if len(running) != 1 || running[0].Attempt != 2 {
		t.Errorf("while it ran again, %d runs were in flight: %s", len(running), told(running))
	}
	wantTurns(t, b, session, "hello")
	w.wantStarts(t, session, "hello", 2)
	return took
}

// attempts is how often a worker starts a run before the run is parked.
const attempts = 3

// A run that kills its process kills this many processes, and is then parked.
func poison(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) {
		job{Do: execute, Site: s, Body: die, Sessions: []string{"s"}, Text: "poison"}.start(t).killed()
		w.free(t, "s")
		boot := func() *child {
			p := job{Do: drainAll, Site: s, Body: die}.start(t)
			p.hear(ready)
			p.goOn()
			return p
		}
		for range attempts - 1 {
			boot().killed()
			w.free(t, "s")
		}
		if got := boot().outcomes(); !got.only("parked", 1) {
			t.Error(got)
		}
		w.wantStarts(t, "s", "poison", attempts)

		b := w.start(t, nil)
		if r := wantRuns(t, b, 1)[0]; r.Status != snapshot.Parked {
			t.Errorf("the run is %s", r.Status)
		}
		if _, err := b.Execute(t.Context(), "s", orchestrator.Input{Text: "hello"}, nil); !errors.Is(err,
			orchestrator.ErrParked) {
			t.Errorf("got %v, want %v", err, orchestrator.ErrParked)
		}
		if got, err := passes(patience(t), b); err != nil || len(got) > 0 {
			t.Errorf("a drain looks at what is parked: %v, %v", got, err)
		}
		wantTurns(t, b, "s")
	})
}
