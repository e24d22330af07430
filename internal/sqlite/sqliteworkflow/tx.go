package sqliteworkflow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

// errVerdict ends a transaction whose entry was refused.
var errVerdict = errors.New("the entry was refused")

// WriteTx is sqlite.DB.WriteTx.
func (s *Store) WriteTx(
	ctx context.Context, f func(tx *sql.Tx) (workflow.Entry, error),
) (verdict, err error) {
	st, err := s.db.Start(ctx)
	if err != nil {
		return nil, s.explain(ctx, "write", err)
	}
	var failed error
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		return s.locked(ctx, tx, st, func(do run) (err error) {
			var e workflow.Entry
			if e, failed = f(tx); failed != nil {
				return failed
			}
			if ended(ctx, tx) {
				return sql.ErrTxDone
			}
			verdict, err = do.enterOnce(ctx, &e)
			return err
		})
	})
	switch {
	case failed != nil:
		return nil, failed
	case errors.Is(err, errVerdict):
		return verdict, nil
	case sqlitestore.Constraint(err), errors.Is(err, sql.ErrTxDone):
		return nil, s.explain(ctx, "write", fmt.Errorf("%w: %w", workflow.ErrAborted, err))
	case err != nil:
		return nil, s.explain(ctx, "write", err)
	}
	return nil, nil
}

// ended reports whether f has ended its transaction: itself, or by a statement that failed and whose conflict clause is
// ROLLBACK. What is written then is in no transaction.
func ended(ctx context.Context, tx *sql.Tx) bool {
	_, err := tx.ExecContext(ctx, "BEGIN") // fails within a transaction
	return err == nil || errors.Is(err, sql.ErrTxDone)
}

// enterOnce writes an entry whose steps are new. It returns an error if the transaction must not commit.
func (do run) enterOnce(ctx context.Context, e *workflow.Entry) (verdict, err error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	verdict, there, err := do.enter(ctx, e)
	switch {
	case err != nil:
		return nil, err
	case verdict != nil:
		return verdict, errVerdict
	case there > 0:
		return nil, fmt.Errorf("%w: the journal has the step already", workflow.ErrInvalid)
	}
	return nil, nil
}
