package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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

	// Version is fixed at the start. 0 means the greatest version that a living engine has registered, else the
	// greatest that was started before, else 1.
	Version       int
	RetentionDays int           // 0 means 30; capped by the store's option
	Delay         time.Duration // until it is due
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
		ID: NewID(), Workflow: workflow, Version: o.Version, Input: in, Key: o.IdempotencyKey,
		RetentionDays: o.RetentionDays, Delay: o.Delay,
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

// Cancel ends a run. The context of a step that runs is cancelled at once, in any process. A result that comes
// later is kept as a Late row. Of a run that is over, Cancel changes nothing and returns Over.
func (c *Client) Cancel(ctx context.Context, run string) (Receipt, error) {
	return c.send(ctx, Message{Run: run, Action: Cancel})
}

// Pause holds a run until Resume. A step that runs is cancelled, and is called again after Resume.
func (c *Client) Pause(ctx context.Context, run string) (Receipt, error) {
	return c.send(ctx, Message{Run: run, Action: Pause})
}

// Resume lets a held run go on.
func (c *Client) Resume(ctx context.Context, run string) (Receipt, error) {
	return c.send(ctx, Message{Run: run, Action: Resume})
}

func (c *Client) send(ctx context.Context, m Message) (Receipt, error) {
	receipts, err := c.front.Send(ctx, []Message{m})
	if err != nil {
		return "", err
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
