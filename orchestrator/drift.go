package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A restored is a stored state that has become an S.
type restored[S any] struct {
	state S

	// altered says that the state is not as stored: Migrate has made it, or Force has dropped something.
	altered bool
}

// restore makes an S of a stored state. No other function does. drift is what else of the row was found to be lost.
func (o *Orchestrator[S]) restore(
	ctx context.Context, cp checkpoint.Checkpoint, drift *DriftError, force bool,
) (restored[S], error) {
	if cp.Version != o.engine.identity.version && o.def.Migrate != nil {
		return o.migrate(ctx, cp, drift)
	}
	state, err := decode[S](cp.State)
	if panicked(err) {
		return restored[S]{}, err
	}
	drift = o.engine.identity.lost(cp.State, cp.Signature, err).and(drift)
	switch {
	case drift == nil:
		return restored[S]{state: state}, nil
	case o.def.Migrate != nil:
		return o.migrate(ctx, cp, drift)
	case force && err == nil:
		return restored[S]{state, true}, nil
	}
	return restored[S]{}, drift
}

// migrate runs Migrate. A *DriftError of Migrate is drift.
func (o *Orchestrator[S]) migrate(
	ctx context.Context, cp checkpoint.Checkpoint, drift *DriftError,
) (restored[S], error) {
	m := migration{current: o.engine.identity.signature}
	if drift != nil {
		m.strangers = drift.Intents
	}
	var migrated S
	var said error
	err := o.engine.functions.run(context.WithValue(ctx, migrationKey{}, m), func(ctx context.Context) error {
		migrated, said = o.def.Migrate(ctx, cp)
		return said
	})
	switch {
	case err == nil:
		return restored[S]{migrated, true}, nil
	case !errors.Is(err, errStuck) && isDrift(said): // functions hide the errors of other bots; this one is ours
		err = said
	}
	return restored[S]{}, fmt.Errorf("migrate: %w", err)
}

// stateOf returns the state that a saved run goes on from. drift is what else of the run was found to be lost.
func (o *Orchestrator[S]) stateOf(
	ctx context.Context, r snapshot.Run, saved runPayload, newest *checkpoint.Checkpoint, drift *DriftError, force bool,
) (restored[S], error) {
	cp := asCheckpoint(r, saved)
	onNewest := newest != nil && newest.RunID == r.Base
	switch {
	case saved.State != nil:
	case onNewest && drift == nil:
		cp = *newest
	case onNewest:
		cp.State = newest.State
	case drift == nil:
		return restored[S]{}, nil
	default:
		var zero S
		raw, err := encode(&zero)
		if err != nil {
			return restored[S]{}, err
		}
		cp.State = raw
	}
	return o.restore(ctx, cp, drift, force)
}

// driftOf returns what would be lost of a run beside its state: intents that this definition does not have, and members
// of what the branches of a fan-out have done. After Migrate, the decision of such a run is made anew. If nothing
// decides anew, final is set, and Migrate does not help.
func (o *Orchestrator[S]) driftOf(saved runPayload, fan *fan) (drift *DriftError, final bool) {
	d := &o.engine.identity
	var intents []string
	for _, s := range saved.Steps {
		intents = append(intents, s.Intents...)
	}
	if saved.Next != nil {
		intents = append(intents, saved.Next.Intents...)
	}
	if fan != nil {
		intents = append(intents, fan.decided.Next.Intents...)
		drift = o.lostOf(fan, saved.Signature)
	}
	if strangers := d.strangers(intents); len(strangers) > 0 {
		drift = drift.and(&DriftError{Intents: strangers, Saved: saved.Signature, Current: d.signature})
		kept := saved.Next != nil && d.knows(saved.Next.Intents)
		final = !kept && !o.decidesAnew(saved.Iteration)
	}
	return drift, final
}

// lostOf returns what would be lost of the states of a fan-out.
func (o *Orchestrator[S]) lostOf(fan *fan, signature string) (drift *DriftError) {
	states := []json.RawMessage{fan.decided.State}
	for _, b := range fan.done {
		states = append(states, b.Change.State)
	}
	for _, state := range states {
		if state == nil {
			continue
		}
		if _, err := decode[S](state); !panicked(err) {
			drift = drift.and(o.engine.identity.lost(state, signature, err))
		}
	}
	return drift
}

// decidesAnew reports whether a turn can go on at this iteration without a saved decision.
func (o *Orchestrator[S]) decidesAnew(iteration int) bool {
	return o.def.Route != nil || len(o.choices) == 1 || iteration == 0 && o.def.First != ""
}

// checkUsable returns why an unfinished run cannot continue in this process. It writes nothing, and calls no function
// of the bot but Migrate.
func (o *Orchestrator[S]) checkUsable(
	ctx context.Context, r snapshot.Run, newest *checkpoint.Checkpoint, pastDrift, pastParked bool,
) error {
	payload, err := o.engine.identity.read(r)
	if err == nil && !pastDrift {
		err = o.checkDrift(ctx, r, payload, newest)
	}
	switch {
	case err != nil:
		return err
	case r.Status == snapshot.Suspended:
		return o.engine.suspended(ctx, r, payload.Doubt)
	case r.Status == snapshot.Parked && !pastParked:
		return ErrParked
	}
	return nil
}

// checkDrift returns the drift of a run, as far as it shows before the run is adopted. If Migrate fails, it is another
// failure of the run, which counts as an attempt.
func (o *Orchestrator[S]) checkDrift(
	ctx context.Context, r snapshot.Run, saved runPayload, newest *checkpoint.Checkpoint,
) error {
	if refused := o.engine.refusals.about(r); refused != nil {
		return refused
	}
	drift, final := o.driftOf(saved, nil)
	if final {
		return drift
	}
	if _, err := o.stateOf(ctx, r, saved, newest, drift, false); isDrift(err) {
		return err
	}
	return nil
}

// asCheckpoint is a saved run as Migrate sees it: a checkpoint that is not settled yet.
func asCheckpoint(r snapshot.Run, saved runPayload) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: r.Turn, State: saved.State, Signature: saved.Signature, Version: saved.Version,
		RunID: r.ID, RequestID: r.RequestID,
	}
}

// result makes a Result of a settled turn.
func (o *Orchestrator[S]) result(
	ctx context.Context, session string, cp checkpoint.Checkpoint, force bool,
) (*Result[S], error) {
	restored, err := o.restore(ctx, cp, nil, force)
	if err != nil {
		return nil, err
	}
	var settled turnPayload
	if len(cp.Payload) > 0 {
		if err := json.Unmarshal(cp.Payload, &settled); err != nil {
			return nil, checkpoint.DamagedTurn(o.engine.key(session), cp.Turn, fmt.Errorf("payload: %w", unread(err)))
		}
	}
	return &Result[S]{
		Session: session, RunID: cp.RunID, Turn: cp.Turn, Input: settled.Input.input(cp.RequestID),
		State: restored.state,
		Steps: steps(settled.Steps), Usage: settled.Usage.usage(), SavedAt: cp.SavedAt,
	}, nil
}
