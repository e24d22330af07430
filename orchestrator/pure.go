package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/ledger"
)

// pure returns the recorded result of what changes nothing in the world. If none is recorded, pure runs it and records
// its result.
func (x *execution[S]) pure(ctx context.Context, l *line, c onceCall) (json.RawMessage, error) {
	if err := x.over(ctx); err != nil {
		return nil, err
	}
	if x.ranBefore(l) {
		now, err := x.recorded(ctx, c.effect.ID)
		if err != nil {
			return nil, err
		}
		if now != nil {
			l.emit(Event{Kind: EffectReplayed, Intent: l.intent, Item: l.item, Attempt: l.attempt})
			return now.Result, nil
		}
	}
	raw, err := x.called(ctx, c)
	if err != nil {
		return nil, err
	}
	return x.recordPure(ctx, c.effect, raw)
}

// ranBefore reports whether an earlier attempt may have recorded a result for this call. The run was found in flight,
// its function is tried again, or a caller may repeat a turn that has failed.
func (x *execution[S]) ranBefore(l *line) bool {
	return x.adopted || l.attempt > 1 || x.input.RequestID != ""
}

// recorded returns a Pure effect whose result can be given back; nil if there is none.
func (x *execution[S]) recorded(ctx context.Context, id string) (found *ledger.Effect, err error) {
	_, err = x.visit.own.Persist(ctx, func(ctx context.Context) error {
		e, err := ledger.Load(ctx, x.engine().ledger, ledger.Query{ID: id})
		if err == nil && e.State == ledger.Completed && !e.Redacted {
			found = &e
		}
		return err
	})
	switch {
	case err == nil, errors.Is(err, ledger.ErrNotFound):
		return found, nil
	case ofOneRow(err):
		return nil, err
	}
	return nil, x.verdict(err)
}

// recordPure records the result of a Pure effect. It returns the result that the ledger has then.
func (x *execution[S]) recordPure(ctx context.Context, e ledger.Effect, raw json.RawMessage) (json.RawMessage, error) {
	e.Result = raw
	if err := e.ValidateRecord(); err != nil {
		return nil, err
	}
	kept, err := x.redacted(e)
	if err != nil {
		return nil, err
	}
	e.Result, e.Redacted = kept.Result, !bytes.Equal(kept.Result, raw)
	if err := e.ValidateRecord(); err != nil {
		return nil, err
	}
	if err := x.effects.begin(); err != nil {
		return nil, err
	}
	defer x.effects.issued(e.ID, underWay{})
	var now ledger.Effect
	_, err = x.visit.own.Persist(ctx, func(ctx context.Context) (err error) {
		now, err = x.engine().ledger.Record(ctx, e)
		return err
	})
	if err != nil {
		return nil, x.verdict(err)
	}
	return given(now, e.Result, raw)
}
