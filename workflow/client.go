package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// A Client starts, signals, reads and ends runs by name. It links no engine. It is safe for concurrent use.
type Client struct{ front Front }

// NewClient returns a client of a store, of an engine's Front, or of what a store's In makes of a transaction.
func NewClient(f Front) *Client { return &Client{front: f} }

// StartOptions say how a run starts. The zero value, and nil, mean the defaults.
type StartOptions struct {
	// IdempotencyKey names the start. A second start with the key returns the run of the first one, whatever its
	// status. With another input it is ErrKeyReused. A key lives as long as its run is kept.
	IdempotencyKey string

	// Group names what the run is for, as a customer. A Limit of the workflow may bound the runs of each group.
	Group string

	// Version is fixed at the start. 0 means the greatest version that a living engine has registered, else the
	// greatest that was started before, else 1.
	Version       int
	RetentionDays int           // 0 means 30; capped by the store's option
	Delay         time.Duration // until it is due

	// Debounce lets the start replace an earlier one with its IdempotencyKey, as long as that run has not begun: the
	// run gets this input, and is due after this Delay. If the run has begun or is over, this start is a new run, and
	// has the key. So of many starts in a row, the last one counts.
	Debounce bool
}

// Start starts a run. input is encoded as JSON. The run is durable on return.
func (c *Client) Start(ctx context.Context, workflow string, input any, o *StartOptions) (Started, error) {
	if o == nil {
		o = new(StartOptions)
	}
	in, err := encode("input", input)
	if err != nil {
		return Started{}, err
	}
	started, err := c.front.Start(ctx, []NewRun{{
		ID: NewID(), Workflow: workflow, Version: o.Version, Input: in, Key: o.IdempotencyKey, Group: o.Group,
		RetentionDays: o.RetentionDays, Delay: o.Delay, Debounce: o.Debounce,
	}})
	if err != nil {
		return Started{}, err
	}
	return started[0], nil
}

func encode(what string, v any) (json.RawMessage, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, what, err)
	}
	return doc, nil
}

// Signal sends an event to a run. id tells a repeated signal from a second one; "" makes each call a new one. If no
// wait takes the signal now, it lies in the run's mailbox. A run that is not there is ErrNotFound.
func (c *Client) Signal(ctx context.Context, run, event string, payload any, id string) (Receipt, error) {
	doc, err := encode("payload", payload)
	if err != nil {
		return "", err
	}
	if id == "" {
		id = NewID()
	}
	return c.send(ctx, Message{Run: run, Action: Signal, ID: id, Event: event, Payload: doc})
}

// SignalFirst gives an event to the run of a workflow that has waited longest for an event whose match the payload
// contains. If no run does, it is ErrNotFound, and nothing is kept. A run with several waits at once is passed over,
// and so is a damaged run. If the call is repeated after an error, it may reach a second run.
func (c *Client) SignalFirst(
	ctx context.Context, workflow, event string, payload any, id string,
) (run string, err error) {
	doc, err := encode("payload", payload)
	if err != nil {
		return "", err
	}
	if id == "" {
		id = NewID()
	}
	for r, err := range c.front.Runs(ctx, Query{Workflow: workflow, Event: event, Payload: doc}) {
		if _, damaged := errors.AsType[*DamagedError](err); damaged {
			continue
		}
		if err != nil {
			return "", err
		}
		m := Message{Run: r.ID, Action: Signal, ID: id, Event: event, Payload: doc, Wanted: true}
		receipt, err := c.send(ctx, m)
		switch {
		case err != nil:
			return "", err
		case receipt == Consumed, receipt == Kept:
			return r.ID, nil
		}
	}
	return "", fmt.Errorf("%w: no run of workflow %q waits for this %q", ErrNotFound, workflow, event)
}

// Cancel ends a run, and its children with it. The context of a step that runs is cancelled at once, in any process. A
// result that comes later is kept as a Late row. Of a run that is over, Cancel changes nothing and returns Over.
func (c *Client) Cancel(ctx context.Context, run string) (Receipt, error) {
	receipt, err := c.send(ctx, Message{Run: run, Action: Cancel})
	if receipt == Applied && strings.Contains(run, ".") { // else it is no child: NewID has no dots
		r, err := c.Get(ctx, run)
		if err == nil && r.Parent != "" {
			_, _ = c.send(ctx, ChildOver(r.Parent, run)) // without it the parent looks later
		}
	}
	return receipt, err
}

// Pause holds a run until Resume. A step that runs is cancelled, and is called again after Resume.
func (c *Client) Pause(ctx context.Context, run string) (Receipt, error) {
	return c.send(ctx, Message{Run: run, Action: Pause})
}

// Resume lets a held run go on.
func (c *Client) Resume(ctx context.Context, run string) (Receipt, error) {
	return c.send(ctx, Message{Run: run, Action: Resume})
}

// applied is how many runs ApplyAll changes in one call of the store.
const applied = 256

// ApplyAll cancels, pauses or resumes the runs that q selects and that are running, and returns how many it has
// changed. It leaves alone what is paused already, or not held. A child that is cancelled with its parent may count for
// itself or not. A run that is damaged is changed too. Runs are changed in groups: after an error, changed says how
// many there were, and ApplyAll may be called again.
func (c *Client) ApplyAll(ctx context.Context, a Action, q Query) (changed int, err error) {
	if a != Cancel && a != Pause && a != Resume {
		return 0, fmt.Errorf("%w: action %q for many runs", ErrInvalid, a)
	}
	if q.Status != "" && q.Status != Running {
		return 0, q.Validate()
	}
	q.Status = Running
	var group []Run
	for r, err := range c.front.Runs(ctx, q) {
		if _, damaged := errors.AsType[*DamagedError](err); err != nil && !damaged {
			return changed, err
		}
		if a == Pause && r.Hold == Paused || a == Resume && r.Hold == "" {
			continue
		}
		if group = append(group, r); len(group) < applied {
			continue
		}
		n, err := c.apply(ctx, a, group)
		if changed += n; err != nil {
			return changed, err
		}
		group = group[:0]
	}
	n, err := c.apply(ctx, a, group)
	return changed + n, err
}

// apply gives an action to runs, and tells the parents of those that are cancelled.
func (c *Client) apply(ctx context.Context, a Action, runs []Run) (changed int, err error) {
	messages := make([]Message, len(runs))
	for i, r := range runs {
		messages[i] = Message{Run: r.ID, Action: a}
	}
	receipts, err := c.front.Send(ctx, messages)
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	var over []Message
	for i, r := range runs {
		if receipts[i] != Applied {
			continue
		}
		if changed++; a == Cancel && r.Parent != "" {
			over = append(over, ChildOver(r.Parent, r.ID))
		}
	}
	if len(over) > 0 {
		_, _ = c.front.Send(ctx, over) // without it the parents look later
	}
	return changed, nil
}

// Rewind takes a run that is running, held or failed back to before a step, and lets it go on from there. What the
// journal has from that step on is gone: also steps of other branches that had started after it. A signal that one of
// them had taken lies in the mailbox again. A child that one of them had started is cancelled. Of a run that is
// completed or cancelled, Rewind changes nothing and returns Over: see Fork. A step that the journal does not have is
// ErrNotFound.
func (c *Client) Rewind(ctx context.Context, run, from string) (Receipt, error) {
	return c.send(ctx, Message{Run: run, Action: Rewind, Event: from})
}

// Fork starts a new run of the same workflow, version, input and group. It begins with a copy of what had ended before
// a step of the run, in the step's branch and in others, and goes on from there. The run itself stays as it is; it may
// be running. The new run has an empty mailbox, no key, no parent and children of its own. A step that the journal does
// not have is ErrNotFound.
func (c *Client) Fork(ctx context.Context, run, from string) (Started, error) {
	r, err := c.Get(ctx, run)
	if err != nil {
		return Started{}, err
	}
	started, err := c.front.Start(ctx, []NewRun{{
		ID: NewID(), Workflow: r.Workflow, Version: r.Version, Input: r.Input, Group: r.Group,
		RetentionDays: r.RetentionDays, From: run, FromStep: from,
	}})
	if errors.Is(err, ErrNotFound) {
		return Started{}, fmt.Errorf("%w: %q, or its step %q", err, run, from)
	}
	if err != nil {
		return Started{}, err
	}
	return started[0], nil
}

func (c *Client) send(ctx context.Context, m Message) (Receipt, error) {
	receipts, err := c.front.Send(ctx, []Message{m})
	if err != nil {
		return "", err
	}
	if receipts[0] == Unknown && m.Action == Rewind {
		return Unknown, fmt.Errorf("%w: %q, or its step %q", ErrNotFound, m.Run, m.Event)
	}
	if receipts[0] == Unknown {
		return Unknown, fmt.Errorf("%w: %q", ErrNotFound, m.Run)
	}
	return receipts[0], nil
}

// Get returns a run, or ErrNotFound.
func (c *Client) Get(ctx context.Context, run string) (Run, error) {
	if err := ValidateRun(run); err != nil {
		return Run{}, err
	}
	for r, err := range c.front.Runs(ctx, Query{ID: run, Limit: 1}) {
		return r, err
	}
	return Run{}, fmt.Errorf("%w: %q", ErrNotFound, run)
}

// Runs yields runs by start, newest first.
func (c *Client) Runs(ctx context.Context, q Query) iter.Seq2[Run, error] {
	return c.front.Runs(ctx, q)
}

// Steps yields the journal of a run, and then the signals that no wait has taken.
func (c *Client) Steps(ctx context.Context, run string) iter.Seq2[Step, error] {
	return c.front.Steps(ctx, run)
}

// An Awaiter is a Front that knows at once when a run of its process is over.
type Awaiter interface {
	// Await returns a run of this process when it is over. known is false if the run is not of this process, or has
	// left it.
	Await(ctx context.Context, run string) (r Run, known bool, err error)
}

// Await returns a run when it is over. For a run of an engine in this process it costs nothing. Otherwise it looks
// again and again, with pauses of up to a second. What an engine in this process returns may lack Started and
// Completed, which are times of the store.
func (c *Client) Await(ctx context.Context, run string) (Run, error) {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if a, ok := c.front.(Awaiter); ok {
			if r, known, err := a.Await(ctx, run); known || err != nil {
				return r, err
			}
		}
		r, err := c.Get(ctx, run)
		if err != nil || r.Status != Running {
			return r, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return r, ctxcause.Of(ctx)
		}
	}
}
