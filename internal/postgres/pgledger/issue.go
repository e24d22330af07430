package pgledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
)

// Issue implements [ledger.Ledger].
func (l *Ledger) Issue(ctx context.Context, e ledger.Effect, again bool) (now ledger.Effect, issued bool, err error) {
	if err := e.ValidateIssue(); err != nil {
		return ledger.Effect{}, false, err
	}
	doubt := doubtedAfter(e)
	at, err := pgstate.One(ctx, l.db, scanTime, l.sql.issue, asked(e, doubt)...)
	if err == nil {
		return added(e, at), true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return ledger.Effect{}, false, l.error(ctx, "issue", e.ID, err)
	}
	follows := follows(e, again)
	none := again && e.State == ledger.Failed
	r, err := l.owned(ctx, e, l.sql.issueKnown, l.sql.issueKnownBrief, follows, none, doubt)
	if err == nil {
		err = r.intact()
	}
	if err != nil {
		return r.Effect, false, l.error(ctx, "issue", e.ID, err)
	}
	issued, err = r.issued(e, follows)
	return r.Effect, issued, err
}

// follows returns the attempt that an Issue follows; 0 if it is the first.
func follows(e ledger.Effect, again bool) int {
	if again {
		return e.Attempts
	}
	return 0
}

// doubtedAfter returns what the statements take of Effect.DoubtedAfter; nil if no Raise concerns e.
func doubtedAfter(e ledger.Effect) *int64 {
	if us, ok := e.DoubtedAfter(); ok {
		return &us
	}
	return nil
}

// added returns the first attempt at e. It shares no memory with e.
func added(e ledger.Effect, at time.Time) ledger.Effect {
	return ledger.Effect{
		ID: e.ID, Orchestrator: e.Orchestrator, Session: e.Session, RunID: e.RunID, Iteration: e.Iteration,
		Intent: e.Intent, Name: e.Name, Each: e.Each, Key: e.Key, Class: e.Class, Fence: e.Fence,
		Args: slices.Clone(e.Args), ArgsSum: e.ArgsSum, State: ledger.Issued, Attempts: 1, IssuedAt: at.UTC(),
	}
}

// issued judges the row that issueKnown has returned for e. It restores what a row that was written leaves out.
func (r *row) issued(e ledger.Effect, follows int) (bool, error) {
	switch {
	case r.written:
		r.Args = slices.Clone(e.Args)
		return r.State == ledger.Issued, nil
	case r.Class != ledger.Pure && !ledger.SameArgs(r.ArgsSum, e.ArgsSum):
		return false, ledger.ErrChanged
	}
	return r.State == ledger.Issued && r.RunID == e.RunID && r.Attempts == follows+1, nil
}

// scanTime reads when an effect was added.
func scanTime(from pgx.CollectableRow) (at time.Time, err error) {
	err = from.Scan(&at, nil)
	return at, err
}

// owned sends a statement about an effect that may be known. If it returns no row, another fence is the run's, or the
// effect was added at this moment. Then owned adopts the run, which changes nothing if the fence is the run's, and
// repeats the statement.
func (l *Ledger) owned(ctx context.Context, e ledger.Effect, sql, brief string, more ...any) (row, error) {
	for {
		r, err := l.write(ctx, sql, brief, asked(e, more...)...)
		if !errors.Is(err, pgx.ErrNoRows) {
			return r, err
		}
		if err := l.adopt(ctx, e.RunID, e.Fence); err != nil {
			return row{}, err
		}
	}
}
