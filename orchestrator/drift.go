package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A restored is a stored state that has become an S.
type restored[S any] struct {
	state S

	// altered says that the state is not as stored: Migrate has made it, or Force has dropped something.
	altered bool
}

// A rest is what a saved run has beside its state.
type rest struct {
	// drift is what would be lost of the rest; nil if nothing.
	drift *DriftError

	// states are the states of a fan-out, which Strict looks at.
	states []json.RawMessage
}

// restore makes an S of a stored state. No other function does. also is what the row has beside the state.
func (o *codec[S]) restore(
	ctx context.Context, cp checkpoint.Checkpoint, also rest, force bool,
) (restored[S], error) {
	if cp.Version != o.engine.identity.version && o.def.Migrate != nil {
		return o.migrate(ctx, cp, also)
	}
	state, err := decode[S](cp.State)
	if panicked(err) {
		return restored[S]{}, err
	}
	drift := o.engine.identity.lost(cp.State, cp.Signature, err).and(also.drift)
	switch {
	case drift == nil:
		return restored[S]{state: state}, nil
	case o.def.Migrate != nil:
		return o.migrate(ctx, cp, also)
	case force && err == nil:
		return restored[S]{state, true}, nil
	}
	return restored[S]{}, drift
}

// migrate runs Migrate. A *DriftError of Migrate is drift.
func (o *codec[S]) migrate(ctx context.Context, cp checkpoint.Checkpoint, also rest) (restored[S], error) {
	m := migration{current: o.engine.identity.signature, states: also.states}
	if also.drift != nil {
		m.strangers = also.drift.Intents
	}
	var migrated S
	var said error
	err := o.engine.functions.run(context.WithValue(ctx, migrationKey{}, m), func(ctx context.Context) error {
		migrated, said = o.def.Migrate(ctx, cp)
		said = logtext.Private(said)
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

// stateOf returns the state that a saved run goes on from. also is what the run has beside the state.
func (o *codec[S]) stateOf(
	ctx context.Context, r snapshot.Run, saved runPayload, newest *checkpoint.Checkpoint, also rest, force bool,
) (restored[S], error) {
	cp := asCheckpoint(r, saved)
	onNewest := newest != nil && newest.RunID == r.Base
	switch {
	case saved.State != nil:
	case onNewest && also.drift == nil:
		cp = *newest
	case onNewest:
		cp.State = newest.State
	case also.drift == nil:
		return restored[S]{}, nil
	default:
		var zero S
		raw, err := encode(&zero)
		if err != nil {
			return restored[S]{}, err
		}
		cp.State = raw
	}
	return o.restore(ctx, cp, also, force)
}

// restOf returns what a run has beside its state. What would be lost of it are intents that this definition does not
// have, and members of what the branches of a fan-out have done. After Migrate, the decision of such a run is made
// anew. If nothing decides anew, final is set, and Migrate does not help.
func (o *codec[S]) restOf(saved runPayload, fan *fan) (also rest, final bool) {
	d := &o.engine.identity
	var intents []string
	if !d.wrote(saved.Signature, saved.Version) { // else Migrate or Force has accepted what had run
		for _, s := range saved.Steps {
			intents = append(intents, s.Intents...)
		}
	}
	if saved.Next != nil {
		intents = append(intents, saved.Next.Intents...)
	}
	if fan != nil {
		intents = append(intents, fan.decided.Next.Intents...)
		also.states = fan.states()
		also.drift = lostOf[S](d, also.states, saved.Signature)
	}
	if strangers := d.strangers(intents); len(strangers) > 0 {
		also.drift = also.drift.and(&DriftError{Intents: strangers, Saved: saved.Signature, Current: d.signature})
		kept := saved.Next != nil && d.knows(saved.Next.Intents)
		final = !kept && !o.decidesAnew(saved.Iteration)
	}
	return also, final
}

// decidesAnew reports whether a turn can go on at this iteration without a saved decision.
func (o *codec[S]) decidesAnew(iteration int) bool {
	return o.def.Route != nil || len(o.choices) == 1 || iteration == 0 && o.def.First != ""
}

// checkUsable returns why an unfinished run cannot continue in this process. It writes nothing, and calls no function
// of the bot but Migrate.
func (o *codec[S]) checkUsable(
	ctx context.Context, r snapshot.Run, newest *checkpoint.Checkpoint, pastDrift, pastParked bool,
) error {
	payload, err := o.engine.identity.read(r)
	if err == nil && !pastDrift {
		err = o.checkDrift(ctx, r, payload, newest)
	}
	switch {
	case err != nil:
		return err
	case r.Status == snapshot.Suspended && payload.Unasked && pastDrift && pastParked: // by Force
		return nil
	case r.Status == snapshot.Suspended:
		return o.engine.answers().suspended(ctx, r, payload)
	case r.Status == snapshot.Parked && !pastParked:
		return o.engine.answers().parked(ctx, r)
	}
	return nil
}

// checkDrift returns the drift of a run, as far as it shows before the run is adopted. If Migrate fails, it is another
// failure of the run, which counts as an attempt.
func (o *codec[S]) checkDrift(
	ctx context.Context, r snapshot.Run, saved runPayload, newest *checkpoint.Checkpoint,
) error {
	if refused := o.engine.refusals.about(r); refused != nil {
		return refused
	}
	also, final := o.restOf(saved, nil)
	if final {
		return also.drift
	}
	if _, err := o.stateOf(ctx, r, saved, newest, also, false); isDrift(err) {
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

// traceOf returns the session whose trace a state belongs to; "" if Definition.TraceOf does not say, or fails.
func (o *codec[S]) traceOf(ctx context.Context, state S) (orchestrator, session string) {
	if o.def.TraceOf == nil {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.engine.options.Limits.SettleTimeout)
	defer cancel()
	told := make(chan [2]string, 1) // a function that was given up may go on
	err := o.engine.functions.run(ctx, func(context.Context) error {
		name, session := o.def.TraceOf(&state)
		told <- [2]string{name, session}
		return nil
	})
	if err != nil {
		return "", ""
	}
	names := <-told
	return names[0], names[1]
}

// result makes a Result of a settled turn.
func (o *codec[S]) result(
	ctx context.Context, session string, cp checkpoint.Checkpoint, force bool,
) (*Result[S], error) {
	restored, err := o.restore(ctx, cp, rest{}, force)
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
		Failed: settled.Failed != "",
	}, nil
}
