package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// restore makes an S of a stored state. No other function does.
func (o *Orchestrator[S]) restore(ctx context.Context, cp checkpoint.Checkpoint, force bool) (state S, err error) {
	if err := o.engine.identity.foreign(cp.Signature, force); err != nil {
		return state, err
	}
	if !o.engine.identity.wrote(cp.Signature, cp.Version) && o.def.Migrate != nil {
		return o.migrate(ctx, cp)
	}
	return decode[S](cp.State)
}

func (o *Orchestrator[S]) migrate(ctx context.Context, cp checkpoint.Checkpoint) (state S, err error) {
	var migrated S
	err = o.engine.functions.run(ctx, func(ctx context.Context) (err error) {
		migrated, err = o.def.Migrate(ctx, cp)
		return err
	})
	if err != nil {
		return state, fmt.Errorf("migrate: %w", err)
	}
	return migrated, nil
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
	state, err := o.restore(ctx, cp, force)
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
		Session: session, RunID: cp.RunID, Turn: cp.Turn, Input: settled.Input.input(cp.RequestID), State: state,
		Steps: steps(settled.Steps), Usage: Usage(settled.Usage), SavedAt: cp.SavedAt,
	}, nil
}
