package workflows_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// talk is the state of a session: the requests that it has heard.
type talk struct{ Heard []string }

type bot = orchestrator.Orchestrator[talk]

// Where a process waits that has a turn as a step.
const (
	inTurn    = "in"
	afterTurn = "after"
	handedOff = "handed off" // until the process shuts down
	nowhere   = "nowhere"
)

// bot answers turns. If waits is inTurn, it waits in them.
func (w *world) bot(h *hook, waits string) (*bot, error) {
	return orchestrator.New(orchestrator.Definition[talk]{
		Name: "support", First: "work",
		Intents: orchestrator.Intents[talk]{"work": {Run: func(ctx context.Context, t *orchestrator.Turn[talk]) error {
			switch waits {
			case inTurn:
				h.wait()
			case handedOff:
				fmt.Fprintln(h.out, here)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			t.State.Heard = append(t.State.Heard, t.Input.RequestID)
			c := newCall(ctx)
			c.step = t.Input.RequestID
			return w.note(ctx, c)
		}}},
	}, w.checkpoints, &orchestrator.Options{
		Snapshots: w.snapshots, Logger: quiet,
		Limits: orchestrator.Limits{DeadAfter: w.options().DeadAfter, LeaseTTL: w.options().Lease},
	})
}

// turns is a workflow of which a step is a turn of a bot. Its output is how often the session has heard something.
func (w *world) turns(b *bot, h *hook, waits string) *flow.Workflow[string, int] {
	return flow.New("turns", 1, func(r *flow.Run, session string) (int, error) {
		return flow.Step(r, "turn", func(ctx context.Context) (int, error) {
			res, err := b.Execute(ctx, session, orchestrator.Input{RequestID: flow.StepID(ctx), Text: "hello"}, nil)
			if err != nil {
				return 0, err
			}
			if waits == afterTurn {
				h.wait()
			}
			return len(res.State.Heard), nil
		})
	})
}

// A process whose step is a turn is killed, or stopped, in the turn, or when the turn has settled and the step has not.
// Another process goes on. The turn settles once.
func TestTurnInStep(t *testing.T) {
	for name, build := range sites {
		for _, at := range []string{inTurn, afterTurn} {
			for what, stop := range map[string]bool{"killed": false, "stopped": true} {
				t.Run(name+"/"+what+" "+at, func(t *testing.T) {
					t.Parallel()
					turnInStep(t, build(t), at, stop)
				})
			}
		}
	}
}

func turnInStep(t *testing.T, at site, waits string, stop bool) {
	w := at.here(t)
	c := workflow.NewClient(w.store)
	p := job{Site: at, Turn: waits}.start(t)
	s, err := c.Start(t.Context(), "turns", "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.hear(here)
	w.awaitBeats(t)
	if stop {
		p.stop()
	} else {
		p.kill()
	}
	b, err := w.bot(nil, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	w.run(t, w.turns(b, nil, nowhere))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := c.Await(ctx, s.ID)
	if err != nil || r.Status != workflow.Completed || string(r.Output) != "1" {
		t.Errorf("%+v: %v", r, err)
	}
	if stop {
		p.resume()
		p.say(goOn)
		p.end()
	}
	turns := 0
	for turn, err := range b.Turns(t.Context(), "s") {
		if err != nil || len(turn.State.Heard) != 1 || turn.State.Heard[0] != s.ID+"/turn" {
			t.Errorf("%+v: %v", turn, err)
		}
		turns++
	}
	calls, err := w.calls(t.Context())
	most := 1
	if stop && waits == inTurn {
		most = 2 // the turn of the process that stood still goes on, and does not settle
	}
	if err != nil || turns != 1 || len(calls) < 1 || len(calls) > most {
		t.Errorf("%d turns, calls %v: %v", turns, calls, err)
	}
}
