package flow

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// Without a provider of OpenTelemetry, and without Metrics, telemetry allocates nothing.
func TestSilent(t *testing.T) {
	w := New("silent", 1, func(*Run, int) (int, error) { return 0, nil })
	e := NewEngine(new(workflow.Memory), &Options{Logger: slog.New(slog.DiscardHandler)}, w)
	run := workflow.Run{ID: "r", Workflow: "silent", Version: 1, Started: time.Now()}
	x := e.newStay(&workflow.Claimed{Run: run}, true)
	x.fence.Epoch = 1
	st := &workflow.Step{Name: "branch/step", Kind: workflow.KindStep, Outcome: workflow.Done}
	n := testing.AllocsPerRun(100, func() {
		x.began()
		span := x.trace()
		_, step := x.span(context.Background(), st)
		endStep(step, nil)
		x.notes(st)
		x.signalled("event")
		x.ended(workflow.Completed)
		x.endTrace(span)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The ids of a trace are the same for ever: programs look for them.
func TestRunTrace(t *testing.T) {
	const want = "00-454349e422f05297191ead13e21d3db5-20e5abef52055e49-01"
	if got := RunTrace("r"); got != want {
		t.Errorf("the trace is %s, want %s", got, want)
	}
}

// A spoiled one has no method that returns.
type spoiled struct{ Metrics }

// Metrics that panic end no run. Each call is logged.
func TestMetricsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := New("spoiled", 1, func(r *Run, n int) (int, error) {
			return Step(r, "step", func(context.Context) (int, error) { return n, nil })
		})
		o := &Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: spoiled{}}
		e := NewEngine(new(workflow.Memory), o, w)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- e.Run(ctx) }()
		synctest.Wait()
		h, err := w.Start(ctx, workflow.NewClient(e.Front()), 7, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := h.Result(ctx); n != 7 || err != nil {
			t.Error(n, err)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "metrics panicked"); n != 3 {
			t.Errorf("%d calls are logged, want 3:\n%s", n, &log)
		}
	})
}
