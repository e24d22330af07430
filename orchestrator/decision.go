package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/lock"
)

// A decision is what an iteration runs. A resume could decide otherwise, and its effects would be other effects. So a
// decision is durable before an effect is issued under it, and before a tool is called that has effects. A turn without
// effects does not pay for that.
type decision struct {
	iteration int
	next      storedNext

	// signature and version are of the definition that decides.
	signature, version string

	// state is what the branches get. It is nil if a resume has it from what is saved.
	state json.RawMessage

	// asked is runPayload.Asked.
	asked []string

	// fan is the fan-out; nil if one intent runs.
	fan *fan

	mu    sync.Mutex // protects following field
	saved bool
}

// decided notes what runs in this iteration. Its branches have not started. A bot without a ledger issues nothing.
func (x *execution[S]) decided(next Next) error {
	if !x.run.inStore || x.engine().ledger == nil {
		return nil
	}
	d := &decision{
		iteration: x.run.payload.Iteration, next: storeNext(next), fan: x.fan,
		signature: x.run.payload.Signature, version: x.run.payload.Version,
	}
	if x.routed { // Route may have changed the state
		d.asked = x.effects.askedBy(asker{in: inRoute})
		if d.fan != nil {
			d.state = d.fan.start
		} else if raw, err := encode(&x.state); err == nil {
			d.state = raw
		} else {
			return err
		}
		if bytes.Equal(d.state, x.run.payload.State) {
			d.state = nil
		}
	}
	x.decision = d
	return nil
}

// into adds the decision to a payload that is about to be saved.
func (d *decision) into(p *runPayload) {
	if d == nil || p.Next != nil {
		return
	}
	p.Next, p.Asked, p.Signature, p.Version = &d.next, d.asked, d.signature, d.version
	if d.state != nil {
		p.State = d.state
	}
}

// commit makes the decision durable that l runs under. If it cannot be saved, nothing runs any more, and the run is
// left in flight.
func (x *execution[S]) commit(ctx context.Context, l *line) error {
	d := l.decision
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.saved {
		return nil
	}
	if err := x.effects.begin(); err != nil {
		return err
	}
	defer x.effects.issued("", underWay{})
	err := x.saveDecision(ctx, d)
	switch {
	case err == nil:
		d.saved = true
	case errors.Is(err, errNotSaved) && !errors.Is(err, lock.ErrFenced):
		x.effects.fail(err)
	}
	return err
}

func (x *execution[S]) saveDecision(ctx context.Context, d *decision) error {
	if d.fan != nil {
		d.fan.mu.Lock() // a branch that ends is saved with the decision
		defer d.fan.mu.Unlock()
		if d.fan.stored {
			return nil
		}
	}
	if err := x.run.decide(ctx, x.used(), d); err != nil {
		return fmt.Errorf("the decision about what runs: %w", err)
	}
	return nil
}
