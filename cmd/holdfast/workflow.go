package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/workflow"
)

// A workflowJSON is a run of a workflow.
type workflowJSON struct {
	Run       string          `json:"run"`
	Workflow  string          `json:"workflow"`
	Version   int             `json:"version"`
	Status    workflow.Status `json:"status"`
	Hold      string          `json:"hold,omitempty"`
	Error     string          `json:"error,omitempty"`
	Key       string          `json:"key,omitempty"`
	Parent    string          `json:"parent,omitempty"`
	Owner     string          `json:"owner,omitempty"`
	Event     string          `json:"event,omitempty"`
	Started   time.Time       `json:"started"`
	Completed time.Time       `json:"completed,omitzero"`
	Due       time.Time       `json:"due,omitzero"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
}

func (p *program) workflowOf(r workflow.Run) workflowJSON {
	v := workflowJSON{
		Run: r.ID, Workflow: r.Workflow, Version: r.Version, Status: r.Status, Hold: string(r.Hold), Error: r.Error,
		Key: r.Key, Parent: r.Parent, Owner: r.Owner, Event: r.Event, Started: r.Started, Completed: r.Completed,
		Due: r.Due,
	}
	if p.reveal {
		v.Input, v.Output = r.Input, r.Output
	}
	return v
}

func workflows(ctx context.Context, p *program, _ []string, x *extras) error {
	c, err := p.room.Workflows()
	if err != nil {
		return err
	}
	status := workflow.Status(x.status)
	if x.status != "" && !status.Known() {
		return usage("-status %q is none of running, completed, failed, cancelled", x.status)
	}
	q := workflow.Query{Workflow: x.session, Status: status, Limit: p.limit}
	if x.after != "" {
		last, err := c.Get(ctx, x.after)
		if err != nil {
			return err
		}
		q.After = &last
	}
	t := p.table("RUN", "WORKFLOW", "STATUS", "STARTED", "WAITS FOR", "OWNER", "ERROR")
	for r, err := range c.Runs(ctx, q) {
		if err != nil && !isDamaged(err) {
			return errors.Join(err, t.end(p, ""))
		}
		status := string(r.Status)
		if r.Hold != "" {
			status = "held: " + string(r.Hold)
		}
		if err != nil {
			status = "damaged"
		}
		name := fmt.Sprintf("%s v%d", r.Workflow, r.Version)
		if err := t.row(p.workflowOf(r), r.ID, name, status, at(r.Started), or(r.Event), or(r.Owner),
			or(r.Error)); err != nil {
			return err
		}
	}
	return t.end(p, "no run of a workflow")
}

// A stepJSON is a row of a journal.
type stepJSON struct {
	Step      string           `json:"step"`
	Kind      workflow.Kind    `json:"kind"`
	Outcome   workflow.Outcome `json:"outcome"`
	Attempts  int              `json:"attempts"`
	Error     string           `json:"error,omitempty"`
	Started   time.Time        `json:"started,omitzero"`
	Completed time.Time        `json:"completed,omitzero"`
	Until     time.Time        `json:"until,omitzero"`
	Output    json.RawMessage  `json:"output,omitempty"`
}

// orWorkflow shows the run of a workflow with this id. If there is none, it returns why there is no such session.
func (p *program) orWorkflow(ctx context.Context, id string, why error) error {
	if !errors.Is(why, ops.ErrNotFound) {
		return why
	}
	c, err := p.room.Workflows()
	if err != nil {
		return why
	}
	run, err := c.Get(ctx, id)
	if err != nil {
		return why
	}
	return p.showWorkflow(ctx, run)
}

func (p *program) showWorkflow(ctx context.Context, r workflow.Run) error {
	c, err := p.room.Workflows()
	if err != nil {
		return err
	}
	err = p.value(p.workflowOf(r), func() {
		fmt.Fprintf(p.out, "%s of workflow %s v%d: %s %s\n", r.ID, plain(r.Workflow), r.Version, r.Status, r.Hold)
		if r.Error != "" {
			fmt.Fprintln(p.out, "  error:", plain(r.Error))
		}
		fmt.Fprintf(p.out, "  started %s, due %s, waits for %s, owner %s\n\n", at(r.Started), at(r.Due),
			plain(or(r.Event)), plain(or(r.Owner)))
	})
	if err != nil {
		return err
	}
	t := p.table("STEP", "KIND", "OUTCOME", "ATTEMPTS", "STARTED", "TOOK", "ERROR")
	for s, err := range c.Steps(ctx, r.ID) {
		if err != nil && !isDamaged(err) {
			return err
		}
		v := stepJSON{
			Step: s.Name, Kind: s.Kind, Outcome: s.Outcome, Attempts: s.Attempts, Error: s.Error, Started: s.Started,
			Completed: s.Completed, Until: s.Until,
		}
		if p.reveal {
			v.Output = s.Output
		}
		took := "-"
		if !s.Completed.IsZero() && !s.Started.IsZero() {
			took = s.Completed.Sub(s.Started).Round(time.Millisecond).String()
		}
		if err := t.row(v, s.Name, s.Kind, s.Outcome, s.Attempts, at(s.Started), took, or(s.Error)); err != nil {
			return err
		}
	}
	return t.end(p, "its journal is empty")
}

func sendSignal(ctx context.Context, p *program, args []string, x *extras) error {
	payload := json.RawMessage("null")
	if len(args) > 2 {
		payload = json.RawMessage(args[2])
	}
	if !json.Valid(payload) {
		return usage("%q is no JSON", args[2])
	}
	r, err := p.room.Signal(ctx, p.by, args[0], args[1], payload, x.id)
	return p.received("signal", args[0], r, err)
}

func cancel(ctx context.Context, p *program, args []string, _ *extras) error {
	if err := p.sure("run " + args[0] + " ends, and its children"); err != nil {
		return err
	}
	return p.apply(ctx, workflow.Cancel, args[0], "")
}

func pause(ctx context.Context, p *program, args []string, _ *extras) error {
	return p.apply(ctx, workflow.Pause, args[0], "")
}

func resume(ctx context.Context, p *program, args []string, _ *extras) error {
	return p.apply(ctx, workflow.Resume, args[0], "")
}

func rewind(ctx context.Context, p *program, args []string, _ *extras) error {
	if err := p.sure("what run " + args[0] + " has done from step " + args[1] + " on is forgotten"); err != nil {
		return err
	}
	return p.apply(ctx, workflow.Rewind, args[0], args[1])
}

func (p *program) apply(ctx context.Context, a workflow.Action, run, step string) error {
	r, err := p.room.Apply(ctx, p.by, a, run, step)
	return p.received(string(a), run, r, err)
}

// receipts say what has become of a message.
var receipts = map[workflow.Receipt]string{
	workflow.Consumed: "the run waited for it, and goes on",
	workflow.Kept:     "it lies in the mailbox of the run",
	workflow.Applied:  "done",
	workflow.Over:     "the run is over: nothing has changed",
	workflow.Unwanted: "no wait takes it",
}

func (p *program) received(act, run string, r workflow.Receipt, err error) error {
	if err != nil {
		return err
	}
	done := r == workflow.Applied || r == workflow.Consumed || r == workflow.Kept
	text := run + ": " + receipts[r]
	return p.told(doneJSON{Act: act, ID: run, Done: done, Receipt: string(r)}, text, text)
}
