package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The answers are those that suspended runs wait for.
type answers struct{ engine *engine }

func (e *engine) answers() answers { return answers{e} }

// suspended returns ErrSuspended while an effect that a run waits for is open, or if the code has not asked for an
// effect that is answered.
func (a answers) suspended(ctx context.Context, r snapshot.Run, saved runPayload) error {
	waitsFor := saved.Doubt
	switch {
	case a.engine.ledger == nil || len(waitsFor) == 0:
		return ErrSuspended
	case saved.Unasked:
		d := &InDoubtError{RunID: r.ID, Effects: waitsFor, Ask: true, Err: errUnasked, unasked: true}
		return fmt.Errorf("%w: %w", ErrSuspended, d)
	}
	open, err := a.openOf(ctx, ledger.Query{RunID: r.ID, Open: true, Brief: true}, waitsFor)
	for _, id := range waitsFor {
		if len(open) > 0 || err != nil {
			break
		}
		// Another run may have issued it.
		open, err = a.openOf(ctx, ledger.Query{ID: id, Open: true, Brief: true}, waitsFor)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errLedger, err)
	case len(open) == 0:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSuspended, &InDoubtError{RunID: r.ID, Effects: open, Ask: true})
}

// parked returns ErrParked unless a person has answered for an effect of the run since its last attempt.
func (a answers) parked(ctx context.Context, r snapshot.Run) error {
	if answered, err := a.sinceParked(ctx, r); !answered || err != nil {
		return ErrParked
	}
	return nil
}

// sinceParked reports whether a person has answered for an effect of a parked run since the run was last saved, which
// was at the end of its last attempt. Adopt, which parks a run, does not count as a save.
func (a answers) sinceParked(ctx context.Context, r snapshot.Run) (answered bool, err error) {
	if a.engine.ledger == nil {
		return false, nil
	}
	err = a.engine.read(ctx, func(ctx context.Context) error {
		for effect, err := range a.engine.ledger.Effects(ctx, ledger.Query{RunID: r.ID, Brief: true}) {
			if err != nil && !ofOneRow(err) {
				return err
			}
			answered = answered || err == nil && effect.AnsweredAt.After(r.SavedAt)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", errLedger, err)
	}
	return answered, err
}

// openOf returns the ids of the effects that a query yields and a run waits for.
func (a answers) openOf(ctx context.Context, q ledger.Query, waitsFor []string) (open []string, err error) {
	err = a.engine.read(ctx, func(ctx context.Context) error {
		for effect, err := range a.engine.ledger.Effects(ctx, q) {
			if err != nil {
				return err
			}
			if slices.Contains(waitsFor, effect.ID) {
				open = append(open, effect.ID)
			}
		}
		return nil
	})
	return open, err
}

// lookOut calls next for the sessions of suspended runs whose effects have all been answered, and for those whose runs
// or effects are damaged. A look that is not whole is at the runs for which a person has answered since the last look.
// If a run cannot be read, lookOut goes on with the others, and the next look is about the same runs. A ledger that is
// away ends the look. lookOut reports whether the caller may go on.
func (a answers) lookOut(ctx context.Context, k look, next func(string, error) bool) bool {
	runs, keyed, err := a.toLookAt(ctx, k)
	if err != nil && !next("", err) {
		return false
	}
	k.partial = k.partial || err != nil
	var unread error
	var where string
	for _, r := range runs {
		due, again, err := a.look(ctx, r)
		a.engine.lookout.saw(r, again)
		switch {
		case err != nil && !ofOneRow(err) && !errors.Is(err, errNoAnswer) && !ledgerAway(err):
			unread, where = err, r.session
		case due && !next(r.session, err):
			return false
		}
	}
	if unread != nil {
		return next(where, unread)
	}
	if !k.partial {
		a.engine.lookout.done(k, keyed)
	}
	return true
}

// toLookAt returns the runs that a look is at. If a part of the snapshot store is away, it returns the runs on the
// others, with the error. keyed is as in lookout.
func (a answers) toLookAt(ctx context.Context, k look) (runs []aRun, keyed time.Time, err error) {
	runs, since, keyed := a.engine.lookout.past(k.began)
	if a.engine.ledger == nil {
		return nil, keyed, nil
	}
	if !k.whole {
		others := false // other runs may wait for the effect: by its Key, or because a tool of theirs has issued it
		for effect, err := range a.engine.ledger.Effects(ctx, ledger.Query{AnsweredWithin: since, Brief: true}) {
			if err != nil && !ofOneRow(err) {
				return nil, keyed, err
			}
			if err != nil { // left to a look that is whole
				continue
			}
			ours := effect.Orchestrator == a.engine.identity.name
			if ours {
				runs = append(runs, aRun{effect.Session, effect.RunID})
			}
			if (effect.Key != "" || !ours) && effect.AnsweredAt.After(keyed) {
				others, keyed = true, effect.AnsweredAt
			}
		}
		if others {
			if k.suspended, err = a.allSuspended(ctx); err != nil && !partAway(err) {
				return nil, keyed, err
			}
		}
	}
	answered, failed := a.answered(ctx, k.suspended)
	parked, failedToo := a.answeredParked(ctx, k)
	err = cmp.Or(failed, failedToo, err)
	runs = slices.Concat(runs, answered, parked)
	slices.SortFunc(runs, func(a, b aRun) int {
		return cmp.Or(strings.Compare(a.session, b.session), strings.Compare(a.id, b.id))
	})
	return slices.Compact(runs), keyed, err
}

// allSuspended returns the suspended runs. Damaged runs are left to a look that is whole. If a part of the snapshot
// store is away, allSuspended returns the runs on the others, with the error.
func (a answers) allSuspended(ctx context.Context) (suspended []aRun, err error) {
	q := snapshot.Query{
		Key: snapshot.Key{Orchestrator: a.engine.identity.name}, Status: snapshot.Suspended, Brief: true,
	}
	var away error
	for r, err := range a.engine.runs(ctx, q) {
		switch {
		case partAway(err):
			away = err
		case err != nil && !ofOneRow(err):
			return nil, err
		case err == nil:
			suspended = append(suspended, aRun{r.Session, r.ID})
		}
	}
	return suspended, away
}

// answered returns those of some suspended runs that wait for none of the effects of their own. It asks for the open
// effects of the bot once.
func (a answers) answered(ctx context.Context, suspended []aRun) ([]aRun, error) {
	if len(suspended) == 0 {
		return nil, nil
	}
	open := make(map[string]bool) // by run
	for effect, err := range a.engine.ledger.Effects(ctx, ledger.Query{
		Orchestrator: a.engine.identity.name, Open: true, Brief: true,
	}) {
		if err != nil && !ofOneRow(err) {
			return nil, err
		}
		// A run waits for what a person is asked about.
		if err == nil && effect.State == ledger.Unknown && effect.Class == ledger.Ask {
			open[effect.RunID] = true
		}
	}
	return slices.DeleteFunc(suspended, func(r aRun) bool { return open[r.id] }), nil
}

// answeredParked returns those of the parked runs of a look for which a person has answered since the first of them was
// last saved. It asks once. look says for which of them that is since their own last attempt.
func (a answers) answeredParked(ctx context.Context, k look) (runs []aRun, err error) {
	if len(k.parked) == 0 {
		return nil, nil
	}
	var first time.Time
	for _, savedAt := range k.parked {
		if first.IsZero() || savedAt.Before(first) {
			first = savedAt
		}
	}
	for effect, err := range a.engine.ledger.Effects(ctx, ledger.Query{
		Orchestrator: a.engine.identity.name, AnsweredWithin: max(0, k.began.Sub(first)) + lateAnswer, Brief: true,
	}) {
		if err != nil && !ofOneRow(err) {
			return nil, err
		}
		r := aRun{effect.Session, effect.RunID}
		if savedAt, ok := k.parked[r]; err == nil && ok && effect.AnsweredAt.After(savedAt) {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// look reports whether a run is suspended, and does not wait for an answer, or parked, and has got one. If that cannot
// be told, err is why. again says that the next look is to be about the run too.
func (a answers) look(ctx context.Context, r aRun) (due, again bool, err error) {
	found, err := a.engine.run(ctx, r.session, true)
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
	case err != nil:
		return true, true, err
	case found.ID != r.id:
	case found.Status == snapshot.Suspended:
		waits, err := a.waits(ctx, r.session)
		return !waits, !waits, err
	case found.Status == snapshot.Parked:
		answered, err := a.sinceParked(ctx, found)
		return answered || err != nil, answered || err != nil, err
	case found.Status == snapshot.Running, found.Status == snapshot.Waiting:
		return false, true, nil // it may be suspended yet
	}
	return false, false, nil
}

// waits reports whether the run of a session is suspended, and waits for an answer. If it does not, err is why that
// cannot be told.
func (a answers) waits(ctx context.Context, session string) (bool, error) {
	found, err := a.engine.inFlight(ctx, session)
	if err != nil {
		return false, err
	}
	if found == nil || found.Status != snapshot.Suspended { // it goes on already
		return true, nil
	}
	payload, err := readPayload(*found)
	if err == nil {
		err = a.suspended(ctx, *found, payload)
	}
	if errors.Is(err, ErrSuspended) || isDrift(err) {
		return true, nil
	}
	return false, err
}
