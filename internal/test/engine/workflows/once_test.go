package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// Where a process waits whose turn starts a run.
const (
	beforeStart = "before"
	inEffect    = "in" // the run is durable, and the ledger does not know it
	afterEffect = "after"
)

// starter is a bot whose turns start a run of told, once. The state hears the id of the run.
func (w *world) starter(h *hook, waits string) (*bot, error) {
	c := workflow.NewClient(w.store)
	wait := func(at string) {
		if at == waits {
			h.wait()
		}
	}
	return orchestrator.New(orchestrator.Definition[talk]{
		Name: "starter", First: "start",
		Intents: orchestrator.Intents[talk]{"start": {Run: func(ctx context.Context, t *orchestrator.Turn[talk]) error {
			start := func(ctx context.Context, key string) (string, error) {
				wait(beforeStart)
				s, err := c.Start(ctx, "told", t.Input.Text, &workflow.StartOptions{IdempotencyKey: key})
				wait(inEffect)
				return s.ID, err
			}
			run, err := orchestrator.Once(ctx, t, "start", start, &orchestrator.OnceOptions[string]{
				Class: ledger.Idempotent,
			})
			wait(afterEffect)
			t.State.Heard = append(t.State.Heard, run)
			return err
		}}},
	}, w.checkpoints, &orchestrator.Options{
		Snapshots: w.snapshots, Ledger: w.ledger, Logger: quiet,
		Limits: orchestrator.Limits{DeadAfter: w.options().DeadAfter, LeaseTTL: w.options().Lease},
	})
}

// told is a workflow of one step.
func (w *world) told() *flow.Workflow[string, string] {
	return flow.New("told", 1, func(r *flow.Run, text string) (string, error) {
		return text, flow.Do(r, "tell", func(ctx context.Context) error { return w.note(ctx, newCall(ctx)) })
	})
}

// once is the input of the turn that starts a run.
var once = orchestrator.Input{RequestID: "once", Text: "hello"}

// startOnce is a process with a turn that starts a run.
func (w *world) startOnce(ctx context.Context, h *hook, waits string) error {
	b, err := w.starter(h, waits)
	if err == nil {
		_, err = b.Execute(ctx, "s", once, nil)
	}
	return err
}

// An intent starts a run by Once, with the key of the effect as the key of the run. Its process is killed before the
// run is started, or when it is and the ledger does not know that, or later. The turn that goes on finds the run: there
// is one, and its step runs once.
func TestStartOnce(t *testing.T) {
	for name, build := range sites {
		for _, at := range []string{beforeStart, inEffect, afterEffect} {
			t.Run(name+"/"+at, func(t *testing.T) {
				t.Parallel()
				startOnce(t, build(t), at)
			})
		}
	}
}

func startOnce(t *testing.T, at site, waits string) {
	w := at.here(t)
	p := job{Site: at, Once: waits}.start(t)
	p.hear(here)
	w.awaitBeats(t)
	p.kill()

	b, err := w.starter(nil, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	w.run(t, w.told())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	res, err := b.Execute(ctx, "s", once, nil)
	if err != nil || res.Turn != 0 || len(res.State.Heard) != 1 {
		t.Fatalf("%+v: %v", res, err)
	}
	c := workflow.NewClient(w.store)
	r, err := c.Await(ctx, res.State.Heard[0])
	if err != nil || r.Status != workflow.Completed || r.Key == "" {
		t.Errorf("%+v: %v", r, err)
	}
	runs := 0
	for r, err := range c.Runs(ctx, workflow.Query{Workflow: "told"}) {
		if err != nil || r.ID != res.State.Heard[0] {
			t.Errorf("%+v: %v", r, err)
		}
		runs++
	}
	calls, err := w.calls(ctx)
	if err != nil || runs != 1 || len(calls) != 1 {
		t.Errorf("%d runs, calls %v: %v", runs, calls, err)
	}
}
