package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/ledger"
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
// left in flight. If the stores are joined, the save issues effects too, and issued says that it has.
func (fx *effects) commit(ctx context.Context, l *line, issue ...ledger.Effect) (issued bool, err error) {
	d := fx.of.run.decision.Load()
	switch {
	case d == nil, l.in == inRoute:
		return false, nil
	case d.iteration != l.iteration:
		return false, errOver // the engine has gone on without the goroutine that asks
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.saved {
		return false, nil
	}
	if err := fx.book.begin(); err != nil {
		return false, err
	}
	defer fx.book.issued("", underWay{})
	issued, err = fx.saveDecision(ctx, d, issue)
	switch {
	case err == nil:
		d.saved = true
	case errors.Is(err, errNotSaved) && !errors.Is(err, lock.ErrFenced):
		fx.book.fail(err)
	}
	return issued, err
}

// carried issues e in a save, if there is a reason for a save: the decision is not saved, or an outcome waits for one.
func (fx *effects) carried(ctx context.Context, l *line, e ledger.Effect, again bool) (issued bool, err error) {
	if again || !fx.of.run.cargo.isOpen() {
		_, err := fx.commit(ctx, l)
		return false, err
	}
	issued, err = fx.commit(ctx, l, e)
	if issued || err != nil || len(fx.of.run.cargo.all()) == 0 {
		return issued, err
	}
	issued, err = fx.of.run.carry(ctx, e)
	if errors.Is(err, errNotSaved) && !errors.Is(err, lock.ErrFenced) {
		fx.book.fail(err)
	}
	return issued, err
}

func (fx *effects) saveDecision(ctx context.Context, d *decision, issue []ledger.Effect) (issued bool, err error) {
	if d.fan != nil {
		d.fan.mu.Lock() // a branch that ends is saved with the decision
		defer d.fan.mu.Unlock()
		if d.fan.stored {
			return false, nil
		}
	}
	issued, err = fx.of.run.decide(ctx, d, issue...)
	if err != nil {
		return false, fmt.Errorf("the decision about what runs: %w", err)
	}
	return issued, nil
}
