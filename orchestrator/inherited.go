package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/ledger"
)

// errNotInherited says that the ledger has not told which effects an earlier owner of the run has left.
var errNotInherited = errors.New("the ledger")

// inherit asks the ledger which effects an earlier owner of the run has left since the last save. The code that runs
// now has to ask for those that are open or that a person has answered for. A branch that is saved has asked for its
// own.
func (fx *effects) inherit(fan *fan) error {
	if fx.of.engine().ledger == nil {
		return nil
	}
	left, recorded := make(map[string]ledger.Effect), make(map[string]ledger.Effect)
	payload := &fx.of.run.payload
	err := fx.of.engine().read(fx.of.ctx, func(ctx context.Context) error {
		for e, err := range fx.of.engine().ledger.Effects(ctx, ledger.Query{RunID: fx.of.run.row.ID, Brief: true}) {
			switch {
			case err != nil && !ofOneRow(err):
				return err
			case err != nil: // its state cannot be told, and it may have happened
				e.State = ledger.Unknown
				left[e.ID] = e
			case e.Class != ledger.Pure && e.Iteration >= payload.Iteration:
				left[e.ID] = e
			case e.Class == ledger.Pure && e.Iteration == payload.Iteration && payload.Failures == 0 &&
				e.Fence.Epoch >= payload.Anew:
				recorded[e.ID] = e
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNotInherited, err)
	}
	asked := slices.Clone(fx.of.run.payload.Asked)
	if fan != nil {
		asked = append(asked, fan.decided.Asked...)
		for _, b := range fan.done {
			asked = append(asked, b.Effects...)
		}
	}
	for _, id := range asked {
		delete(left, id)
	}
	fx.book.left, fx.book.recorded = left, recorded
	return nil
}

// strangers returns the drift of effects: the definition does not have the intents that have issued them, and would do
// the same again under another name. A decision that is made anew does not help, and Migrate knows nothing of effects.
func (fx *effects) strangers() *DriftError {
	d, saved := &fx.of.engine().identity, &fx.of.run.payload
	if d.wrote(saved.Signature, saved.Version) { // Force has accepted what the run had
		return nil
	}
	var intents []string
	for _, e := range fx.book.left {
		if e.Intent != "" && (e.State != ledger.Failed || e.AnsweredBy != "") {
			intents = append(intents, e.Intent)
		}
	}
	slices.Sort(intents)
	if intents = d.strangers(intents); len(intents) == 0 {
		return nil
	}
	return &DriftError{Intents: intents, Saved: saved.Signature, Current: d.signature}
}

// allAsked returns why a run that was adopted may not settle: an earlier owner has left an effect that is open, or that
// a person has answered for, and the code that runs now has not asked for it. It would settle as if that had never
// happened. So a person is asked. If the code does not ask after the answer either, only Force settles the turn.
func (fx *effects) allAsked() error {
	var open, answered []string
	for _, e := range fx.book.unasked() {
		switch {
		case e.State.Open():
			open = append(open, e.ID)
		case e.AnsweredBy != "":
			answered = append(answered, e.ID)
		}
	}
	d := &InDoubtError{RunID: fx.of.run.row.ID, Effects: open, Ask: true, Err: errUnasked}
	if len(open) == 0 {
		d.Effects, d.unasked = answered, true
	}
	switch {
	case len(d.Effects) == 0:
		return nil
	case fx.of.visit.call.force:
		fx.of.logger().WarnContext(fx.of.ctx,
			"turn settles by Force, although its code has not asked for effects of it",
			"session", fx.of.visit.own.Grant.Session, "turn", fx.of.index, "run", fx.of.run.row.ID,
			"effects", slices.Concat(open, answered))
		return nil
	}
	slices.Sort(d.Effects)
	return d
}
