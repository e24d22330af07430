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

// foreign returns a *DriftError if this definition may not use what the definition with this signature wrote.
func (o *Orchestrator[S]) foreign(signature string, force bool) error {
	if signature == o.signature || o.def.Migrate != nil || force {
		return nil
	}
	return &DriftError{Saved: signature, Current: o.signature}
}

// wrote reports whether this definition wrote something with this signature and version.
func (e *engine) wrote(signature, version string) bool {
	return signature == e.signature && version == e.version
}

// restore makes an S of a stored state. No other function does.
func (o *Orchestrator[S]) restore(ctx context.Context, cp checkpoint.Checkpoint, force bool) (state S, err error) {
	if err := o.foreign(cp.Signature, force); err != nil {
		return state, err
	}
	if !o.wrote(cp.Signature, cp.Version) && o.def.Migrate != nil {
		return o.migrate(ctx, cp)
	}
	return decode[S](cp.State)
}

func (o *Orchestrator[S]) migrate(ctx context.Context, cp checkpoint.Checkpoint) (state S, err error) {
	var migrated S
	err = o.run(ctx, func(ctx context.Context) (err error) {
		migrated, err = o.def.Migrate(ctx, cp)
		return err
	})
	if err != nil {
		return state, fmt.Errorf("migrate: %w", err)
	}
	return migrated, nil
}

// encode and decode are the places where the marshaling of S itself may panic.
func encode[S any](state *S) (raw json.RawMessage, err error) {
	err = protect(func() (err error) {
		raw, err = json.Marshal(state)
		return err
	})
	return raw, logtext.Private(err)
}

func decode[S any](raw json.RawMessage) (state S, err error) {
	err = protect(func() error { return json.Unmarshal(raw, &state) })
	if err != nil {
		return state, fmt.Errorf("state: %w", logtext.Private(err))
	}
	return state, nil
}

// stored is a run as Migrate sees it: a checkpoint that is not settled yet.
func stored(r snapshot.Run, m memo) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: r.Turn, State: m.State, Signature: m.Signature, Version: m.Version, RunID: r.ID, RequestID: r.RequestID,
	}
}

// result makes a Result of a settled turn.
func (o *Orchestrator[S]) result(
	ctx context.Context, session string, cp checkpoint.Checkpoint, force bool,
) (*Result[S], error) {
	state, err := o.restore(ctx, cp, force)
	if err != nil {
		return nil, err
	}
	var rec record
	if len(cp.Payload) > 0 {
		if err := json.Unmarshal(cp.Payload, &rec); err != nil {
			return nil, checkpoint.DamagedTurn(o.key(session), cp.Turn, fmt.Errorf("payload: %w", unread(err)))
		}
	}
	return &Result[S]{
		Session: session, RunID: cp.RunID, Turn: cp.Turn, Input: rec.Input.input(cp.RequestID), State: state,
		Steps: steps(rec.Steps), Usage: Usage(rec.Usage), SavedAt: cp.SavedAt,
	}, nil
}

func isDrift(err error) bool {
	_, ok := errors.AsType[*DriftError](err)
	return ok
}
