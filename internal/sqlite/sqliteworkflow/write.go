package sqliteworkflow

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	standingSQL = `SELECT status, owner, epoch, nonce, mail FROM {prefix}workflow_runs WHERE id = ?1`

	stepSQL = `
		INSERT INTO {prefix}workflow_steps (run, name, idx, kind, outcome, attempts, until, signal, started, completed,
			error, output)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
		ON CONFLICT (run, name) DO UPDATE SET
			idx = excluded.idx,
			kind = excluded.kind,
			outcome = excluded.outcome,
			attempts = excluded.attempts,
			until = iif(outcome = 'late', excluded.until, coalesce(excluded.until, until)),
			signal = excluded.signal,
			started = iif(outcome = 'late', excluded.started, started),
			completed = excluded.completed,
			error = excluded.error,
			output = excluded.output
		WHERE (outcome = 'late' OR (outcome = 'open' OR outcome = 'retrying')
				AND (excluded.outcome <> outcome OR excluded.attempts > attempts))
			AND excluded.outcome <> 'late'`

	takenSQL = `UPDATE {prefix}workflow_signals SET taken = 1 WHERE run = ?1 AND id = ?2`

	parkSQL = `
		UPDATE {prefix}workflow_runs SET owner = '', due = ?2, event = ?3, match = ?4, since = ?5
		WHERE id = ?1`

	endSQL = `
		UPDATE {prefix}workflow_runs SET owner = '', status = ?2, error = ?3, output = ?4, completed = ?5,
			expires = ?5 + retention * ` + dayText + `
		WHERE id = ?1`

	stopSQL = `
		UPDATE {prefix}workflow_runs SET owner = '', hold = ?2, error = ?3, due = ?4
		WHERE id = ?1`
)

// Write implements [workflow.Store]. The entries are one transaction.
func (s *Store) Write(ctx context.Context, entries []workflow.Entry) (verdicts []error, err error) {
	err = s.write(ctx, "write", workflow.ValidateWrite(entries), func(do run) error {
		verdicts = make([]error, len(entries))
		for i := range entries {
			if verdicts[i], _, err = do.enter(ctx, &entries[i]); err != nil {
				return damaged(entries[i].Run, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

// enter writes an entry. there counts the steps that were in the journal already, and have stayed.
func (do run) enter(ctx context.Context, e *workflow.Entry) (verdict error, there int, err error) {
	r, err := sqlitestore.One(ctx, do.Runner, scanStanding, standingSQL, e.Run)
	switch {
	case err != nil:
		return nil, 0, err
	case r == nil:
		return workflow.ErrNotFound, 0, nil
	}
	late := e.Next == workflow.Record
	if !late {
		if repeated, err := e.Verdict(r.status, r.owner, r.fence, r.mail); repeated || err != nil {
			return err, len(e.Steps), nil
		}
	}
	now := clock()
	for i := range e.Steps {
		written, err := do.put(ctx, e.Run, &e.Steps[i], now, late)
		if err != nil {
			return nil, 0, err
		}
		if !written {
			there++
		}
	}
	return nil, there, do.next(ctx, e, now)
}

// A standing has the columns of a run that decide about an entry.
type standing struct {
	status workflow.Status
	owner  string
	fence  lock.Fence
	mail   int64
}

func scanStanding(rows *sql.Rows) (r standing, err error) {
	err = rows.Scan((*string)(&r.status), &r.owner, &r.fence.Epoch, &r.fence.Nonce, &r.mail)
	return r, err
}

// put adds a row to the journal. written is false if another row stays.
func (do run) put(
	ctx context.Context, run string, st *workflow.Step, now time.Time, late bool,
) (written bool, err error) {
	outcome, until := st.Outcome, st.Until
	if late {
		outcome = workflow.Late
	}
	if st.For > 0 {
		until = now.Add(st.For)
	}
	written, err = do.Wrote(ctx, stepSQL, run, st.Name, st.Index, string(st.Kind), string(outcome), st.Attempts,
		orNever(until), st.Signal, now.Add(-st.Took).UnixMicro(), now.UnixMicro(), st.Error, orNull(st.Output))
	if err == nil && written && st.Signal != "" && !late {
		_, err = do.Exec(ctx, takenSQL, run, st.Signal)
	}
	return written, err
}

// next lets the run go on as the entry says.
func (do run) next(ctx context.Context, e *workflow.Entry, now time.Time) (err error) {
	switch e.Next {
	case workflow.Park:
		due, isNever := e.DueAfter(now)
		at := int64(never)
		if !isNever {
			at = min(due.UnixMicro(), never-1)
		}
		_, err = do.Exec(ctx, parkSQL, e.Run, at, e.Event, orNull(e.Match), now.UnixMicro())
	case workflow.End:
		output := orNull(e.Output)
		if e.Status == workflow.Completed {
			output = sql.NullString{String: document(e.Output), Valid: true}
		}
		_, err = do.Exec(ctx, endSQL, e.Run, string(e.Status), e.Error, output, now.UnixMicro())
	case workflow.Stop:
		_, err = do.Exec(ctx, stopSQL, e.Run, string(e.Held), e.Error, int64(never))
	}
	return err
}

func orNull(doc json.RawMessage) sql.NullString {
	return sql.NullString{String: string(doc), Valid: doc != nil}
}

// orNever returns a time as it is kept. The zero time is NULL.
func orNever(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}
