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
func (fx *effects) pure(ctx context.Context, l *line, c onceCall) (json.RawMessage, error) {
	if err := fx.of.over(ctx); err != nil {
		return nil, err
	}
	if fx.ranBefore(l, c) {
		now, err := fx.recorded(ctx, c.effect.ID)
		if err != nil {
			return nil, err
		}
		if now != nil {
			l.emit(Event{Kind: EffectReplayed})
			return now.Result, nil
		}
		fx.book.miss(l.asker, c.effect.Name)
	}
	if err := fx.record(ctx); err != nil { // the call may take long
		return nil, err
	}
	raw, err := fx.called(ctx, c)
	if err != nil {
		return nil, err
	}
	return fx.recordPure(ctx, c.effect, raw)
}

// ranBefore reports whether an earlier attempt may have recorded a result for this call: the run was found in flight.
// If a retry by decision may find it too, its function may be tried again, or a caller may repeat a turn that failed.
func (fx *effects) ranBefore(l *line, c onceCall) bool {
	return fx.of.adopted || (c.keep || c.effect.Key != "") && (l.attempts() > 1 || fx.of.input.RequestID != "")
}

// recorded returns a Pure effect whose result can be given back; nil if there is none.
func (fx *effects) recorded(ctx context.Context, id string) (found *ledger.Effect, err error) {
	_, err = fx.of.visit.own.Persist(ctx, func(ctx context.Context) error {
		e, err := ledger.Load(ctx, fx.of.engine().ledger, ledger.Query{ID: id})
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
	return nil, fx.verdict(err)
}

// recordPure records the result of a Pure effect. It returns the result that the ledger has then.
func (fx *effects) recordPure(ctx context.Context, e ledger.Effect, raw json.RawMessage) (json.RawMessage, error) {
	e.Result = raw
	if err := e.ValidateRecord(); err != nil { // Record looks at what is kept
		return nil, err
	}
	kept, err := fx.redacted(e)
	if err != nil {
		return nil, err
	}
	e.Result, e.Redacted = kept.Result, !bytes.Equal(kept.Result, raw)
	if err := fx.book.begin(); err != nil {
		return nil, err
	}
	defer fx.book.issued(e.ID, underWay{})
	var now ledger.Effect
	_, err = fx.of.visit.own.Persist(ctx, func(ctx context.Context) (err error) {
		now, err = fx.of.engine().ledger.Record(ctx, e)
		return err
	})
	if err != nil {
		return nil, fx.verdict(err)
	}
	return given(now, e.Result, raw)
}
