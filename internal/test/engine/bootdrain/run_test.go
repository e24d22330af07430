package bootdrain_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/runnote"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// wrapped is a bot as a program may wrap it.
type wrapped struct{ *bot }

// The report of a drain, and its log, name the run that was in flight, also if the bot is wrapped.
func TestRunIsNamed(t *testing.T) {
	w := opened{
		checkpoints: new(checkpoint.Memory), snapshots: new(snapshot.Memory), effects: os.DevNull, limits: limits,
	}
	ctx, stop := context.WithCancel(t.Context())
	left := w.start(t, func(context.Context, *turn) error { stop(); return ctx.Err() })
	if _, err := left.Execute(ctx, "s", orchestrator.Input{Text: "hello"}, nil); err == nil {
		t.Fatal("the turn has settled")
	}
	id := wantRuns(t, left, 1)[0].ID
	var log strings.Builder
	report, err := bootdrain.DrainInterrupted(t.Context(), wrapped{w.start(t, nil)},
		&bootdrain.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil || report.Settled != 1 || report.Runs[0].ID != id {
		t.Errorf("%+v, %v; want run %s", report, err, id)
	}
	if line := "run finished\" orchestrator=support session=s run=" + id; !strings.Contains(log.String(), line) {
		t.Errorf("the log lacks %q: %s", line, log.String())
	}
}

// An orchestrator says that a session is at work after the run is adopted and read, and before an intent or Deliver
// runs.
func TestAtWorkIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		deliver := errors.New("no answer")
		called, stop := context.WithCancel(t.Context())
		var snapshots snapshot.Memory
		b, err := orchestrator.New(orchestrator.Definition[talk]{
			Name: "support", First: "work",
			Intents: orchestrator.Intents[talk]{"work": {Run: func(ctx context.Context, _ *turn) error {
				steps = append(steps, "intent")
				stop()
				return ctx.Err()
			}}},
			Deliver: func(context.Context, *orchestrator.Result[talk]) error {
				steps = append(steps, "deliver")
				return deliver
			},
		}, new(checkpoint.Memory), &orchestrator.Options{
			Logger: quiet,
			History: func(context.Context, string) ([]message.Message, error) {
				steps = append(steps, "history")
				return nil, nil
			},
			Snapshots: faulttest.Snapshots(&snapshots, faulttest.On(
				func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
					steps = append(steps, "adopt")
					return next(ctx)
				}, "Adopt")),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Execute(called, "s", orchestrator.Input{Text: "hello"}, nil); err == nil {
			t.Fatal("the turn has settled")
		}
		recover := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute) // then a delivery that has failed is due
			steps = nil
			ctx, _ := runnote.With(t.Context(), func() { steps = append(steps, "at work") })
			if _, err := b.Recover(ctx, "s"); err != nil || !slices.Equal(steps, want) {
				t.Errorf("%q, %v; want %q", steps, err, want)
			}
		}
		recover("adopt", "history", "at work", "intent", "at work", "deliver")
		deliver = nil
		recover("at work", "deliver")
		recover()
	})
}
