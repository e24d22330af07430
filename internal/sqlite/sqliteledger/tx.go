package sqliteledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Tx is sqlite.Once.
func Tx[T any](
	ctx context.Context, l *Ledger, tx *sql.Tx, e ledger.Effect, fn func(ctx context.Context) (T, error),
) (T, error) {
	v, err := runIn(ctx, guest{l.db, tx}, e, fn)
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

func runIn[T any](ctx context.Context, g guest, e ledger.Effect, fn func(context.Context) (T, error)) (v T, err error) {
	now, err := g.issue(ctx, e)
	if err != nil {
		return v, g.wrap(ctx, e, err)
	}
	if now.State == ledger.Issued {
		if v, err = fn(ctx); err != nil {
			return v, err
		}
		if now, err = g.complete(ctx, now, v); err != nil {
			return v, g.wrap(ctx, e, err)
		}
	}
	var result T
	if now.Result != nil {
		if err := json.Unmarshal(now.Result, &result); err != nil {
			return v, g.wrap(ctx, e, fmt.Errorf("%w: recorded result: %w", ledger.ErrInvalid, err))
		}
	}
	return result, nil
}

// A guest is the ledger in a transaction of the program.
type guest struct {
	db *sqlitestore.DB
	tx *sql.Tx
}

func (g guest) run() run { return run{g.db.Guest(g.tx)} }

// issue returns the effect as Issued by this call, or as Completed.
func (g guest) issue(ctx context.Context, e ledger.Effect) (now ledger.Effect, err error) {
	if err := cmp.Or(e.ValidateIssue(), ctxcause.Of(ctx)); err != nil {
		return now, err
	}
	// A transaction that has not read waits for other writers, so this comes first.
	if err := g.run().adopt(ctx, e.RunID, e.Fence); sqlitestore.Busy(err) {
		return now, fmt.Errorf("%w: begin the transaction with BEGIN IMMEDIATE, or let it wait longer: %w",
			ledger.ErrRefused, err)
	} else if err != nil {
		return now, err
	}
	if err := g.db.Admit(ctx, g.tx); err != nil {
		return now, err
	}
	var sure sql.NullInt64 // what was lost with this file has not happened
	f, written, err := g.run().put(ctx, issuing(e, 0, false, sure))
	if err == nil && !written && f.damage == nil && f.State == ledger.Failed {
		f, written, err = g.run().put(ctx, issuing(e, f.Attempts, false, sure))
	}
	switch {
	case err != nil:
		return now, err
	case f.damage != nil:
		return now, f.damage
	case written:
		return f.Effect, nil
	}
	if err := changed(e, f.Effect); err != nil {
		return now, err
	}
	switch {
	case f.State == ledger.Completed && f.Redacted:
		return now, ledger.ErrRedacted
	case f.State == ledger.Completed:
		return f.Effect, nil
	case f.State == ledger.Skipped:
		return now, ledger.ErrSkipped
	case f.State == ledger.Issued && f.RunID != e.RunID:
		return now, fmt.Errorf("%w: it is issued to run %q: %w", ledger.ErrInDoubt, f.RunID, lock.ErrHeld)
	default:
		return now, fmt.Errorf("%w: it is %s", ledger.ErrInDoubt, f.State)
	}
}

// complete notes the result v of the attempt that this call has issued.
func (g guest) complete(ctx context.Context, issued ledger.Effect, v any) (now ledger.Effect, err error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return now, fmt.Errorf("%w: result: %w", ledger.ErrInvalid, err)
	}
	o := ledger.Outcome{State: ledger.Completed, Result: doc}
	if err := ledger.ValidateFinish(issued.ID, issued.Attempts, o); err != nil {
		return now, err
	}
	f, err := sqlitestore.One(ctx, g.run().Runner, scan, finishSQL, finishArgs(issued.ID, issued.Attempts, o)...)
	switch {
	case err != nil:
		return now, err
	case f == nil:
		return now, fmt.Errorf("%w: its row was changed in the transaction", ledger.ErrInDoubt)
	}
	return f.Effect, f.damage
}

func (g guest) wrap(ctx context.Context, e ledger.Effect, err error) error {
	return fmt.Errorf("sqliteledger: tx %q: %w", e.ID, g.db.ExplainIn(ctx, g.tx, err))
}
