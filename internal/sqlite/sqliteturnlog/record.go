package sqliteturnlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

const (
	addSQL = `
		INSERT INTO {prefix}phases (run, at, phase, state)
		VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (run, at, phase) DO NOTHING`

	// max of a column and NULL is NULL.
	lineSQL = `
		INSERT INTO {prefix}logged AS l (run, orchestrator, session, turn, first, last, started, settled, open)
		VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?7 IS NULL)
		ON CONFLICT (run) DO UPDATE SET
			turn = max(turn, excluded.turn),
			first = min(first, excluded.first),
			last = max(last, excluded.last),
			started = ` + lastStarted + `,
			settled = ` + lastSettled + `,
			open = coalesce(` + lastSettled + ` <= ` + lastStarted + `, ` + lastSettled + ` IS NULL)`

	lastStarted = `coalesce(max(started, excluded.started), started, excluded.started)`
	lastSettled = `coalesce(max(settled, excluded.settled), settled, excluded.settled)`

	knownSQL = `SELECT state FROM {prefix}phases WHERE run = ?1 AND at = ?2 AND phase = ?3`
)

// tries bounds how often Record begins again because a Prune came between.
const tries = 100

// errKnown says that an entry has been recorded before.
var errKnown = errors.New("the entry is known")

// Record is one transaction. If the entry is known, a statement after it compares the states.
func (l *Log) Record(ctx context.Context, e turnlog.Entry) error {
	if err := l.record(ctx, e); err != nil {
		return fmt.Errorf("sqliteturnlog: record %q: %w", e.Run, l.db.Explain(ctx, err))
	}
	return nil
}

func (l *Log) record(ctx context.Context, e turnlog.Entry) error {
	st, err := l.db.Start(ctx, e.Validate())
	if err != nil {
		return err
	}
	for range tries {
		err := l.db.Write(ctx, func(tx *sql.Tx) error { return add(ctx, tx, st, e) })
		if !errors.Is(err, errKnown) {
			return err
		}
		known, err := knownState(ctx, st, e)
		switch {
		case sqlitestore.Corrupt(err):
			return turnlog.Damaged(e.Run, err)
		case err != nil:
			return err
		case len(known) == 0: // it was pruned since
		case !turnlog.Same(known[0], json.RawMessage(stateOf(e))):
			return turnlog.ErrChanged
		default:
			return nil
		}
	}
	return errors.New("the entry is pruned all the time")
}

// stateOf returns the state of an entry as it is stored.
func stateOf(e turnlog.Entry) string {
	if e.State == nil {
		return "null"
	}
	return string(e.State)
}

// add writes the entry, and the row of its run. If the entry is known, add returns errKnown.
func add(ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, e turnlog.Entry) error {
	at := e.At.UnixMilli()
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[addSQL]).ExecContext(ctx, e.Run, at, e.Phase, stateOf(e)))
	switch {
	case err != nil:
		return err
	case n == 0:
		return errKnown
	}
	_, err = tx.StmtContext(ctx, st[lineSQL]).ExecContext(ctx, e.Run, e.Orchestrator, e.Session, e.Turn, at,
		sql.NullInt64{Int64: at, Valid: e.Phase == turnlog.Started},
		sql.NullInt64{Int64: at, Valid: e.Phase == turnlog.Settled})
	return err
}

// knownState returns the state of an entry, or nothing.
func knownState(ctx context.Context, st sqlitestore.Statements, e turnlog.Entry) ([]json.RawMessage, error) {
	rows, err := st[knownSQL].QueryContext(ctx, e.Run, e.At.UnixMilli(), e.Phase)
	return sqlitestore.Collect(rows, err, func(rows *sql.Rows) (state json.RawMessage, err error) {
		err = rows.Scan((*[]byte)(&state))
		return state, err
	})
}
