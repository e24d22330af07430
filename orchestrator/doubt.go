package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
)

// inDoubt returns the effects of this run that err tells of as one error; nil if there are none. If a person has to be
// asked for some of them, only those count. The effects of another run are not this run's, unless toolEnds has made
// them so.
func (fx *effects) inDoubt(err error) *InDoubtError {
	var asked, waiting []*InDoubtError
	eachDoubt(err, func(e *InDoubtError) {
		switch {
		case e.RunID != fx.of.run.row.ID && e.RunID != "":
		case e.Ask:
			asked = append(asked, e)
		default:
			waiting = append(waiting, e)
		}
	})
	if len(asked) > 0 {
		return fx.joinDoubts(asked)
	}
	return fx.joinDoubts(waiting)
}

// joinDoubts returns several doubts of one kind as one; nil if there are none.
func (fx *effects) joinDoubts(some []*InDoubtError) *InDoubtError {
	if len(some) == 0 {
		return nil
	}
	all := &InDoubtError{RunID: fx.of.run.row.ID, Ask: some[0].Ask, pause: some[0].pause}
	var why []error
	for _, d := range some {
		all.Effects, all.pause = append(all.Effects, d.Effects...), min(all.pause, d.pause)
		all.unasked = all.unasked || d.unasked
		if d.Err != nil {
			why = append(why, d.Err)
		}
	}
	all.Effects = distinct(all.Effects)
	if all.Err = joined(why); len(why) == 1 {
		all.Err = why[0]
	}
	all.Err = foreign(all.Err) // a function of the bot may have said it
	return all
}

// eachDoubt calls see for each InDoubtError that err wraps. Errors that hide what they wrap do not hide doubt. A bare
// ledger.ErrInDoubt, as Tx returns it, is doubt too.
func eachDoubt(err error, see func(*InDoubtError)) {
	logtext.Walk(err, func(err error) (deeper bool) {
		if err == ledger.ErrInDoubt { //nolint:errorlint // this very error is meant
			see(&InDoubtError{Err: err})
			return false
		}
		d, ok := err.(*InDoubtError) //nolint:errorlint // Walk goes down
		if ok && d != nil {
			see(d)
		}
		return !ok
	})
}

// asks reports whether err waits for a person: trying again would not help.
func (fx *effects) asks(err error) bool {
	d := fx.inDoubt(err)
	return d != nil && d.Ask
}

// unknown returns the effects because of which a turn must not be told as failed: those that this execution has found
// in doubt, whatever its functions have made of that, those that a function has left behind, and those that an earlier
// owner of the run has left.
func (fx *effects) unknown(e *Error) (*InDoubtError, error) {
	if err := fx.closeEffects(); err != nil {
		return nil, err
	}
	all := fx.book.doubts()
	if fx.of.adopted && fx.of.engine().ledger != nil {
		open, err := fx.leftOpen(e)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errLedger, err)
		}
		all = append(all, open...)
	}
	return fx.inDoubt(errors.Join(asErrors(all)...)), nil
}

// leftOpen returns the effects of the run that are open in the ledger.
func (fx *effects) leftOpen(e *Error) (all []*InDoubtError, err error) {
	err = fx.of.engine().read(fx.of.ctx, func(ctx context.Context) error {
		q := ledger.Query{RunID: fx.of.run.row.ID, Open: true, Brief: true}
		for effect, err := range fx.of.engine().ledger.Effects(ctx, q) {
			if err != nil && !ofOneRow(err) {
				return err
			}
			all = append(all, &InDoubtError{
				RunID: fx.of.run.row.ID, Effects: []string{effect.ID}, Ask: effect.Class == ledger.Ask, Err: e.Err,
			})
		}
		return nil
	})
	return all, err
}

// toolStarts comes before a tool of this turn begins a turn of its own, which may issue effects.
func (fx *effects) toolStarts(ctx context.Context, l *line, effects bool) error {
	if !effects {
		return nil
	}
	if _, err := fx.commit(ctx, l); err != nil {
		return err
	}
	return fx.record(ctx)
}

// toolEnds returns the error of a tool's call for the function that has called it. If the turn of the tool may go on,
// its effects may happen yet: then this turn is in doubt too. Told as failed, the user would ask again, and a fresh
// turn of the tool would pay again. If the turn of the tool has not begun, first says that no call of this run began it
// before.
func (fx *effects) toolEnds(id string, effects, first bool, err error) error {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil, !effects, !ok:
		fx.book.known(id)
		return err
	case e.RunID == "" && (first && !fx.of.adopted || e.Op == "input" || errors.Is(err, ErrRequestReused) ||
		errors.Is(err, ErrReentrant)):
		return err
	case e.RunID != "" && !unfinished(err):
		fx.book.known(id)
		return err
	}
	d := &InDoubtError{RunID: fx.of.run.row.ID, Err: err}
	eachDoubt(err, func(of *InDoubtError) {
		if of.RunID == e.RunID || of.RunID == "" {
			d.Effects, d.pause, d.unasked = append(d.Effects, of.Effects...), of.pause, d.unasked || of.unasked
			d.Ask = d.Ask || of.Ask && fx.of.engine().ledger != nil // without a ledger no answer is found
		}
	})
	fx.book.doubt(id, d)
	return d
}

// unfinished reports whether err says that a run stays in flight.
func unfinished(err error) bool {
	return errors.Is(err, ErrIndeterminate) || errors.Is(err, ErrSuspended) || errors.Is(err, ErrParked)
}

func asErrors(all []*InDoubtError) (errs []error) {
	for _, d := range all {
		errs = append(errs, d)
	}
	return errs
}
