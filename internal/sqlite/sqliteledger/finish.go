package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
)

// A damaged state takes no result: the effect may have had one. unsure stays: it counts while the effect is open.
const finishSQL = `
		UPDATE {prefix}effects SET
			state = CASE WHEN ?3 = 'failed' AND ?7 = '' AND unsure THEN 'unknown' ELSE ?3 END,
			result = ?4,
			redacted = ?9,
			error = ?5,
			finished_at = ?6,
			answered_by = CASE WHEN ?7 = '' THEN answered_by ELSE ?7 END,
			answered_at = CASE WHEN ?7 = '' THEN answered_at ELSE ?6 END
		WHERE id = ?1 AND CASE
			WHEN ?7 <> '' THEN attempts = ?2 AND (state = 'unknown' OR state = 'issued' AND ?8)
			WHEN ?3 = 'completed' THEN state = 'issued' OR state = 'unknown' OR state = 'failed' OR state = 'skipped'
			ELSE attempts = ?2 AND (state = 'unknown' OR state = 'issued')
		END
		RETURNING ` + columns

// Finish writes the outcome in one statement. If the outcome is not taken, a second one tells why.
func (l *Ledger) Finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (now ledger.Effect, err error) {
	now, err = l.finish(ctx, id, attempt, o)
	if err != nil {
		return now, fmt.Errorf("sqliteledger: finish %q: %w", id, l.db.Explain(ctx, err))
	}
	return now, nil
}

func (l *Ledger) finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (now ledger.Effect, err error) {
	st, err := l.db.Start(ctx, ledger.ValidateFinish(id, attempt, o))
	if err != nil {
		return ledger.Effect{}, err
	}
	for range mostTries {
		var f *finding
		err := l.write(ctx, func() (err error) {
			f, err = sqlitestore.One(ctx, sqlitestore.Alone(st), scan, finishSQL, finishArgs(id, attempt, o)...)
			return err
		})
		if f != nil || err != nil {
			found, err := l.judge(ctx, st, id, f, err)
			return found.Effect, err
		}
		f, err = sqlitestore.One(ctx, sqlitestore.Alone(st), scan, effectSQL, id)
		if err != nil || f != nil && f.damage != nil {
			found, err := l.judge(ctx, st, id, f, err)
			return found.Effect, err
		}
		if f == nil {
			return ledger.Effect{}, ledger.ErrNotFound
		}
		if state, err := f.Takes(attempt, o); state == "" {
			return f.Effect, err
		}
		// The effect has changed since the first statement.
	}
	return ledger.Effect{}, errors.New("the effect has changed at each try")
}

// mostTries bounds a Finish. Each further try means that another call has come between its two statements.
const mostTries = 100

func finishArgs(id string, attempt int, o ledger.Outcome) []any {
	return []any{
		id, attempt, string(o.State), orNull(o.Result), o.Error, time.Now().UnixMicro(), o.By, o.Sure, o.Redacted,
	}
}
