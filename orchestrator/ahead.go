package orchestrator

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/ledger"
)

// ahead is Ahead.
func (fx *effects) ahead(l *line, intent string, c onceCall) error {
	switch {
	case fx.of.engine().ledger == nil:
		return ErrNoLedger
	case l.in != inIntent && l.in != inEvaluate && l.in != inThen:
		return fmt.Errorf("%w: Ahead in %s: the next iteration does not follow it", ledger.ErrInvalid, l.in)
	case c.effect.Class == ledger.Pure, fx.of.engine().carry == nil:
		return nil
	}
	next := &line{asker: asker{in: inIntent, intent: intent}, origin: l.origin}
	next.iteration++
	e, err := fx.named(next, c)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return errOver
	}
	l.upcoming = append(l.upcoming, e)
	return nil
}

// upcoming returns the effects that the save before the next iteration issues: follows is decided, and will name them.
func (fx *effects) upcoming(follows Next) (all []ledger.Effect) {
	named := make(map[string]bool)
	for _, e := range fx.book.foreseen() {
		_, items := follows.each[e.Intent]
		if e.Iteration == fx.of.run.payload.Iteration && slices.Contains(follows.Intents, e.Intent) && !items &&
			!named[e.ID] {
			named[e.ID] = true
			all = append(all, e)
		}
	}
	return all
}

// finish records what still waits when the flight is over. The next attempt goes on without what it could not record.
func (fx *effects) finish(ctx context.Context) {
	fx.of.run.cargo.carries(false)
	fx.notBegun()
	attrs := []any{"session", fx.of.visit.own.Grant.Session, "run", fx.of.run.row.ID}
	if err := fx.of.run.record(ctx); err != nil {
		fx.of.logger().WarnContext(ctx, "outcomes of effects not recorded; they are in doubt",
			append(attrs, fx.of.engine().why(err))...)
	}
	if err := fx.of.run.log(ctx); err != nil {
		attrs = append(attrs, fx.of.engine().why(err))
		fx.of.logger().WarnContext(ctx, "phases not recorded in the turn log", attrs...)
	}
}
