package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// called calls the function of an effect.
func (fx *effects) called(ctx context.Context, c onceCall) (raw json.RawMessage, err error) {
	ctx = context.WithValue(ctx, atWorkKey{}, &atWork{c.effect.ID, atWorkIn(ctx)})
	err = fx.of.engine().functions.protect(ctx, func() (err error) { raw, err = c.run(ctx, c.effect.ID); return err })
	return raw, err
}

// atWork are the effects whose functions a context belongs to.
type atWork struct {
	id    string
	outer *atWork
}

type atWorkKey struct{}

func atWorkIn(ctx context.Context) *atWork {
	in, _ := ctx.Value(atWorkKey{}).(*atWork)
	return in
}

// within reports whether ctx belongs to the function of an effect.
func within(ctx context.Context, id string) bool {
	for in := atWorkIn(ctx); in != nil; in = in.outer {
		if in.id == id {
			return true
		}
	}
	return false
}

// given returns the result that the ledger has. If it was redacted, only the call that brought the result may have it.
func given(now ledger.Effect, kept, mine json.RawMessage) (json.RawMessage, error) {
	if !now.Redacted {
		return now.Result, nil
	}
	a, errA := jsonvalue.Canonical(now.Result)
	b, errB := jsonvalue.Canonical(kept)
	if mine != nil && errA == nil && errB == nil && bytes.Equal(a, b) {
		return mine, nil
	}
	return nil, ledger.ErrRedacted
}

// redactPanicked is kept in place of a text that Effects.Redact could not judge.
const redactPanicked = "Effects.Redact has panicked"

// redacted passes what is to be stored of an effect through Effects.Redact.
func (fx *effects) redacted(e ledger.Effect) (ledger.Effect, error) {
	redact := fx.of.engine().options.Effects.Redact
	if redact == nil {
		return e, nil
	}
	e.Args, e.Result = slices.Clone(e.Args), slices.Clone(e.Result)
	kept := e
	err := fx.of.engine().functions.protect(fx.of.ctx, func() error { kept = redact(e); return nil })
	if err != nil {
		return ledger.Effect{}, fmt.Errorf("Effects.Redact: %w", logtext.Private(err))
	}
	return kept, nil
}

// verdict returns the error of a call to the ledger. If the call was not answered, nothing runs any more, and the run
// is left in flight. It may be called on any goroutine.
func (fx *effects) verdict(err error) error {
	switch {
	case errors.Is(err, ledger.ErrChanged), errors.Is(err, store.ErrInvalid):
		return err
	case errors.Is(err, lock.ErrFenced):
		fx.of.visit.own.Fenced()
		return err
	}
	err = fmt.Errorf("%w: %w", errLedger, err)
	fx.book.fail(err)
	return err
}

// record records the outcomes that wait.
func (fx *effects) record(ctx context.Context) error {
	if err := fx.of.run.record(ctx); err != nil {
		return fx.verdict(err)
	}
	return nil
}

// notBegun records, with the next save, that effects which a save has issued did not happen: nobody has named them.
func (fx *effects) notBegun() {
	for _, e := range fx.book.ashore() {
		fx.of.run.cargo.put(notBegun(e.ID))
	}
}

// notBegun is the outcome of an effect that a save has issued, and that has not happened.
func notBegun(id string) ledger.Finish {
	o := ledger.Outcome{State: ledger.Failed, Error: "not begun: it was announced, and not called"}
	return ledger.Finish{ID: id, Attempt: 1, Outcome: o}
}
