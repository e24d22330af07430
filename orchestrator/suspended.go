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

// answered returns the sessions of suspended runs whose effects have all been answered. It asks for the open effects of
// the bot once. A run that waits for effects of other runs is looked at by itself.
func (e *engine) answered(ctx context.Context, suspended []suspendedRun) (sessions []string, err error) {
	if e.ledger == nil || len(suspended) == 0 {
		return nil, nil
	}
	open := make(map[string]bool) // by run
	for effect, err := range e.ledger.Effects(ctx, ledger.Query{
		Orchestrator: e.identity.name, Open: true, Brief: true,
	}) {
		if err != nil && !ofOneRow(err) {
			return nil, err
		}
		// A run waits for what a person is asked about.
		if err != nil || effect.State == ledger.Unknown && effect.Class == ledger.Ask {
			open[effect.RunID] = true
		}
	}
	for _, r := range suspended {
		if open[r.id] {
			continue
		}
		found, err := e.inFlight(ctx, r.session)
		if err != nil || found == nil || found.Status != snapshot.Suspended {
			continue // damaged, which a listing of all tells, or over
		}
		payload, err := readPayload(*found)
		if err != nil {
			continue
		}
		switch err := e.suspended(ctx, *found, payload.Doubt); {
		case err == nil:
			sessions = append(sessions, r.session)
		case !errors.Is(err, ErrSuspended) && !ofOneRow(err):
			return sessions, err
		}
	}
	return sessions, nil
}
