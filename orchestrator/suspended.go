package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// suspended returns ErrSuspended while an effect that a run waits for is open.
func (e *engine) suspended(ctx context.Context, r snapshot.Run, waitsFor []string) error {
	if e.ledger == nil || len(waitsFor) == 0 {
		return ErrSuspended
	}
	open, err := e.openOf(ctx, ledger.Query{RunID: r.ID, Open: true, Brief: true}, waitsFor)
	for _, id := range waitsFor {
		if len(open) > 0 || err != nil {
			break
		}
		// Another run may have issued it.
		open, err = e.openOf(ctx, ledger.Query{ID: id, Open: true, Brief: true}, waitsFor)
	}
	switch {
	case err != nil:
		return err
	case len(open) == 0:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSuspended, &InDoubtError{RunID: r.ID, Effects: open, Ask: true})
}

// openOf returns the ids of the effects that a query yields and a run waits for.
func (e *engine) openOf(ctx context.Context, q ledger.Query, waitsFor []string) (open []string, err error) {
	for effect, err := range e.ledger.Effects(ctx, q) {
		if err != nil {
			return nil, err
		}
		if slices.Contains(waitsFor, effect.ID) {
			open = append(open, effect.ID)
		}
	}
	return open, nil
}

// A suspendedRun is a run that a listing has found.
type suspendedRun struct{ session, id string }

// answered calls next for the sessions of suspended runs whose effects have all been answered, and for those whose runs
// or effects are damaged. It asks for the open effects of the bot once. A run that waits for effects of other runs is
// looked at by itself.
func (e *engine) answered(ctx context.Context, suspended []suspendedRun, next func(string, error) bool) {
	if e.ledger == nil || len(suspended) == 0 {
		return
	}
	open := make(map[string]bool) // by run
	for effect, err := range e.ledger.Effects(ctx, ledger.Query{
		Orchestrator: e.identity.name, Open: true, Brief: true,
	}) {
		if err != nil && !ofOneRow(err) {
			next("", err)
			return
		}
		// A run waits for what a person is asked about.
		if err == nil && effect.State == ledger.Unknown && effect.Class == ledger.Ask {
			open[effect.RunID] = true
		}
	}
	for _, r := range suspended {
		if open[r.id] {
			continue
		}
		waits, err := e.waits(ctx, r.session)
		if !waits && !next(r.session, err) {
			return
		}
	}
}

// waits reports whether the run of a session is suspended, and waits for an answer. If it does not, err is why that
// cannot be told.
func (e *engine) waits(ctx context.Context, session string) (bool, error) {
	found, err := e.inFlight(ctx, session)
	if err != nil {
		return false, err
	}
	if found == nil || found.Status != snapshot.Suspended { // it goes on already
		return true, nil
	}
	payload, err := readPayload(*found)
	if err == nil {
		err = e.suspended(ctx, *found, payload.Doubt)
	}
	if errors.Is(err, ErrSuspended) || isDrift(err) {
		return true, nil
	}
	return false, err
}
