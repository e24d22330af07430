package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
)

// decided notes what runs in this iteration. Its branches have not started. A bot without a ledger issues nothing.
func (x *execution[S]) decided(next Next, routed bool) error {
	if !x.run.inStore || x.engine().ledger == nil {
		return nil
	}
	d := &decision{
		iteration: x.run.payload.Iteration, next: storeNext(next), fan: x.run.fan,
		signature: x.run.payload.Signature, version: x.run.payload.Version,
	}
	if routed { // Route may have changed the state
		d.asked = x.effects.book.askedBy(asker{in: inRoute})
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
	x.run.decision.Store(d)
	return nil
}

// commit makes the decision durable that l runs under. If it cannot be saved, nothing runs any more, and the run is
// left in flight.
func (fx *effects) commit(ctx context.Context, l *line) error {
	d := fx.of.run.decision.Load()
	switch {
	case d == nil, l.in == inRoute:
		return nil
	case d.iteration != l.iteration:
		return errOver // the engine has gone on without the goroutine that asks
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.saved {
		return nil
	}
	if err := fx.book.begin(); err != nil {
		return err
	}
	defer fx.book.issued("", underWay{})
	err := fx.saveDecision(ctx, d)
	switch {
	case err == nil:
		d.saved = true
	case errors.Is(err, errNotSaved) && !errors.Is(err, lock.ErrFenced):
		fx.book.fail(err)
	}
	return err
}

func (fx *effects) saveDecision(ctx context.Context, d *decision) error {
	if d.fan != nil {
		d.fan.mu.Lock() // a branch that ends is saved with the decision
		defer d.fan.mu.Unlock()
		if d.fan.stored {
			return nil
		}
	}
	if err := fx.of.run.decide(ctx, d); err != nil {
		return fmt.Errorf("the decision about what runs: %w", err)
	}
	return nil
}
