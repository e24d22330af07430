package pgledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Tx does an effect in a transaction of the caller: package postgres says how, as Once.
func Tx[T any](
	ctx context.Context, l *Ledger, tx pgx.Tx, e ledger.Effect, fn func(ctx context.Context) (T, error),
) (result T, err error) {
	if err := e.ValidateIssue(); err != nil {
		return result, err
	}
	if err := readable(tx.Conn()); err != nil {
		return result, err
	}
	now, err := l.issueIn(ctx, tx, e)
	switch {
	case err != nil:
		return result, l.error(ctx, "tx", e.ID, err)
	case now.State == ledger.Completed:
		err = decode(now.Result, &result)
		return result, l.error(ctx, "tx", e.ID, err)
	}
	done, err := fn(ctx)
	if err != nil {
		return done, err
	}
	o := ledger.Outcome{State: ledger.Completed}
	if o.Result, err = json.Marshal(done); err != nil {
		return result, fmt.Errorf("%w: result: %w", ledger.ErrInvalid, err)
	}
	if err := ledger.ValidateFinish(e.ID, now.Attempts, o); err != nil {
		return result, err
	}
	if err := decode(o.Result, &result); err != nil {
		return result, err
	}
	_, err = pgstate.Row(ctx, tx, scan, l.sql.finish, outcome(e.ID, now.Attempts, o)...)
	return result, l.error(ctx, "tx", e.ID, err)
}

// readable refuses a connection of the caller whose times come as text in another style than ISO. The calls of a Ledger
// set the style for themselves. In a transaction of the caller that would change what the caller reads.
func readable(c *pgx.Conn) error {
	style := c.PgConn().ParameterStatus("DateStyle")
	if style == "" || strings.HasPrefix(style, "ISO") {
		return nil
	}
	switch c.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("%w: the DateStyle of the transaction is %q, and its times are read as text: set it to ISO",
			ledger.ErrInvalid, style)
	}
	return nil
}

// decode makes the result of what the ledger keeps, so that the first call returns what a later one does.
func decode[T any](doc json.RawMessage, result *T) error {
	if doc == nil {
		return nil
	}
	if err := json.Unmarshal(doc, result); err != nil {
		return fmt.Errorf("%w: result is no %T: %w", ledger.ErrInvalid, *result, err)
	}
	return nil
}

// issueIn issues e in tx. It returns no error if tx has issued e, or if e is Completed.
func (l *Ledger) issueIn(ctx context.Context, tx pgx.Tx, e ledger.Effect) (ledger.Effect, error) {
	var sure *int64 // what was lost with this database has not happened
	at, err := pgstate.Row(ctx, tx, scanTime, l.sql.issue, asked(e, sure)...)
	if err == nil {
		return added(e, at), nil
	}
	var r row
	for again := 0; errors.Is(err, pgx.ErrNoRows); {
		r, err = pgstate.Row(ctx, tx, scan, l.sql.issueKnown, asked(e, again, false, sure)...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			if err := l.adoptIn(ctx, tx, e.RunID, e.Fence); err != nil {
				return ledger.Effect{}, err
			}
		case err == nil && !r.written && r.State == ledger.Failed && again != r.Attempts:
			again, err = r.Attempts, pgx.ErrNoRows
		}
	}
	if err == nil {
		err = r.intact()
	}
	if err == nil {
		_, err = r.issued(e, r.Attempts) // as the caller has no attempt of its own
	}
	switch {
	case err == nil && r.State == ledger.Completed && r.Redacted:
		return r.Effect, ledger.ErrRedacted
	case err != nil || r.written || r.State == ledger.Completed:
		return r.Effect, err
	case r.State == ledger.Skipped:
		return r.Effect, ledger.ErrSkipped
	case r.State == ledger.Issued && r.RunID != e.RunID:
		return r.Effect, fmt.Errorf("%w: %w", ledger.ErrInDoubt, lock.ErrHeld)
	}
	return r.Effect, ledger.ErrInDoubt
}

// adoptIn is adopt in tx.
func (l *Ledger) adoptIn(ctx context.Context, tx pgx.Tx, runID string, f lock.Fence) error {
	level, err := pgstate.Row(ctx, tx, func(from pgx.CollectableRow) (level string, err error) {
		err = from.Scan(&level, nil)
		return level, err
	}, l.sql.adopt, runID, f.Epoch, f.Nonce)
	if err != nil {
		return fenced(err)
	}
	if level != readCommitted {
		return fmt.Errorf("%w: the transaction is %s, and does not see what it has to adopt: call Adopt before it",
			ledger.ErrInvalid, level)
	}
	_, err = tx.Exec(ctx, l.sql.unknown, runID, f.Epoch, f.Nonce)
	return err
}
