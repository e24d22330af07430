package bootdrain_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
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
