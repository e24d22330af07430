package sqliteledger

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	// The SELECT has a row if the fence is that of the run. SQLite takes the write lock before it reads the fence, so
	// no Adopt comes between.
	insertSQL = `
		INSERT INTO {prefix}effects (id, orchestrator, session, run_id, iteration, intent, name, each, key, class,
			epoch, nonce, args_sum, issued_at, args, state, finished_at, result, redacted, attempts, answered_by, error,
			unsure)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, iif(why IS NULL, ?16, 'unknown'),
			iif(why IS NULL, ?17, ?14), ?18, ?19, 1, '', coalesce(why, ''), 0
		FROM {prefix}effect_fences LEFT JOIN (
			SELECT why FROM {prefix}effect_raises WHERE ?20 < epoch AND until > ?14 ORDER BY epoch DESC LIMIT 1) ON true
		WHERE run_id = ?4 AND epoch = ?11 AND nonce = ?12 AND epoch > ` + floor + `
		ON CONFLICT (id) DO NOTHING
		RETURNING error`

	// floor is the epoch up to which fences were raised.
	floor = `coalesce((SELECT max(epoch) FROM {prefix}effect_raises), 0)`

	// metSQL reads the effect and the fence at one moment. If it read them one after the other, an owner that was
	// fenced off in between could take its successor's attempt for its own.
	metSQL = `
		SELECT ` + columns + `, (SELECT epoch FROM {prefix}effect_fences WHERE run_id = ?2 AND epoch > ` + floor + `),
			(SELECT nonce FROM {prefix}effect_fences WHERE run_id = ?2)
		FROM {prefix}effects
		WHERE id = ?1`
)

// A put writes an effect under the fence of its run.
type put struct {
	// fresh is the effect if it is not known yet. doubt is its DoubtedAfter; NULL if no Raise concerns it.
	fresh ledger.Effect
	doubt sql.NullInt64
	// takes reports whether a known effect is written over.
	takes func(known ledger.Effect) bool
	// over is the statement that writes over a known effect, in any state.
	over string
	args []any
}

// first returns e as the first attempt, which is in a state already.
func first(e ledger.Effect, s ledger.State) ledger.Effect {
	e.State, e.Attempts, e.IssuedAt = s, 1, time.UnixMicro(time.Now().UnixMicro()).UTC()
	e.FinishedAt, e.AnsweredAt, e.AnsweredBy, e.Error = time.Time{}, time.Time{}, "", ""
	e.Unsure, e.Age, e.Began = false, 0, time.Time{}
	if s == ledger.Completed {
		e.FinishedAt = e.IssuedAt
	} else {
		e.Result, e.Redacted = nil, false
	}
	e.Args, e.Result = slices.Clone(e.Args), slices.Clone(e.Result)
	return e
}

// insert adds the effect as Issued or Completed, or as Unknown. If another fence is the run's, or the effect is known,
// it adds nothing.
func (do run) insert(ctx context.Context, p put) (f finding, written bool, err error) {
	why, err := sqlitestore.One(ctx, do.Runner, scanText, insertSQL, append(insertArgs(p.fresh), p.doubt)...)
	if err != nil || why == nil {
		return f, false, err
	}
	e := p.fresh
	if *why != "" {
		e.State, e.Error, e.FinishedAt = ledger.Unknown, *why, e.IssuedAt
	}
	return finding{Effect: e}, true, nil
}

func scanText(rows *sql.Rows) (text string, err error) {
	err = rows.Scan(&text)
	return text, err
}

func insertArgs(e ledger.Effect) []any {
	return []any{
		e.ID, e.Orchestrator, e.Session, e.RunID, e.Iteration, e.Intent, e.Name, e.Each, e.Key, int(e.Class),
		e.Fence.Epoch, e.Fence.Nonce, e.ArgsSum, e.IssuedAt.UnixMicro(), orNull(e.Args), string(e.State),
		sql.NullInt64{Int64: e.FinishedAt.UnixMicro(), Valid: !e.FinishedAt.IsZero()},
		orNull(e.Result), e.Redacted,
	}
}

// put returns the effect as it stands after p, and whether p has written it. A new effect is one statement. If it is
// known, a second statement reads it. If it is to be written over, or if the fence is not that of the run yet, a
// transaction does both.
func (l *Ledger) put(ctx context.Context, st sqlitestore.Statements, p put) (f finding, written bool, err error) {
	err = l.write(ctx, func() (err error) {
		f, written, err = run{sqlitestore.Alone(st)}.insert(ctx, p)
		return err
	})
	if written && err == nil {
		return f, true, nil
	}
	var met *meeting
	if err == nil {
		met, err = sqlitestore.One(ctx, sqlitestore.Alone(st), scanMeeting, metSQL, p.fresh.ID, p.fresh.RunID)
	}
	switch {
	case err != nil:
	case met == nil, met.fence != p.fresh.Fence, met.damage == nil && p.takes(met.Effect):
		err = l.db.Write(ctx, func(tx *sql.Tx) (err error) {
			do := run{sqlitestore.Within(tx, st)}
			if err := do.adopt(ctx, p.fresh.RunID, p.fresh.Fence); err != nil {
				return err
			}
			f, written, err = do.put(ctx, p)
			return err
		})
	default:
		f = met.finding
	}
	f, err = l.judge(ctx, st, p.fresh.ID, &f, err)
	return f, written, err
}

// put is Ledger.put in a transaction that has adopted the run.
func (do run) put(ctx context.Context, p put) (f finding, written bool, err error) {
	known, err := sqlitestore.One(ctx, do.Runner, scan, effectSQL, p.fresh.ID)
	if err != nil {
		return f, false, err
	}
	if known == nil {
		return do.insert(ctx, p)
	}
	if known.damage == nil && p.takes(known.Effect) {
		known, err = sqlitestore.One(ctx, do.Runner, scan, p.over, p.args...)
		written = known != nil
	}
	if known == nil {
		return f, false, err
	}
	return *known, written, nil
}

// judge returns what a call has found or written, with its damage. If the call failed, the reason may be that the
// effect is damaged: SQLite reads a row before it writes the row.
func (l *Ledger) judge(
	ctx context.Context, st sqlitestore.Statements, id string, f *finding, err error,
) (finding, error) {
	switch {
	case err == nil:
		return *f, f.damage
	case errors.Is(err, lock.ErrFenced):
		return finding{}, err
	}
	known, e := sqlitestore.One(ctx, sqlitestore.Alone(st), scan, effectSQL, id)
	switch {
	case sqlitestore.Corrupt(e):
		err = ledger.Damaged(id, e)
	case e == nil && known != nil && known.damage != nil:
		return *known, known.damage
	}
	return finding{}, err
}
