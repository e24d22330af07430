package pgsnapshot

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// functionsSQL creates the functions that a store with Options.Functions calls.
//
//go:embed functions.sql
var functionsSQL string

// functions are the names of all functions after the prefix. A placeholder is such a name without its number.
var functions = []string{
	"run_begin_1", "run_find_1", "run_adopt_1", "run_save_1", "run_delete_1", "run_settle_1", "run_raise_2",
	"run_retire_1",
}

const (
	// columnsOfRun are the columns of a run that a function returns, in the order of columns.
	columnsOfRun = `orchestrator text, session text, id text, request_id text, turn integer, attempt integer,
    base text, status text, seq bigint, epoch bigint, nonce text, payload jsonb, error text, not_before timestamptz,
    started_at timestamptz, saved_at timestamptz, pause bigint, in_flight boolean, parted boolean`

	// runAsItIs has the values of columns, or of brief, in a function.
	runAsItIs = `r.orchestrator, r.session, r.id,
            CASE WHEN _brief THEN '' ELSE r.request_id END, r.turn, r.attempt,
            CASE WHEN _brief THEN '' ELSE r.base END, r.status, r.seq, r.epoch, r.nonce,
            CASE WHEN NOT _brief THEN r.payload END, CASE WHEN _brief THEN '' ELSE r.error END, r.not_before,
            r.started_at, r.saved_at, CASE WHEN isfinite(r.not_before)
                THEN (extract(epoch FROM r.not_before - _moment) * 1e6)::bigint ELSE 0 END,
            r.deleted_at IS NULL, r.parts`

	// runCounts is the condition counts in a function.
	runCounts = `(_most > 0 AND (r.epoch, r.nonce) <> (_epoch, _nonce)
            AND r.status NOT IN ('parked', 'ended', 'deleted'))`
)

// calls holds the calls that a store sends instead of statements that write. Each call is about one session.
type calls struct {
	begin, find, adopt, save, delete, settle, raise, retire string

	// These statements list the sessions to raise and to retire.
	known, slice string
}

func fillCalls(names *strings.Replacer) *calls {
	const begun = `$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15`
	c := calls{
		begin:  `SELECT {run_begin}(` + begun + `, $16)`,
		find:   `SELECT * FROM {run_find}($1, $2, $3, $4)`,
		adopt:  `SELECT * FROM {run_adopt}($1, $2, $3, $4, $5, $6)`,
		save:   `SELECT {run_save}(` + begun + `, $16)`,
		delete: `SELECT {run_delete}($1, $2, $3, $4, $5)`,
		settle: `SELECT {run_settle}('{append}', ` + begun + `)`,
		raise:  `SELECT {run_raise}($1, $2)`,
		retire: `SELECT {run_retire}($1, $2, $3)`,
		known: `
			SELECT orchestrator, session
			FROM {runs}
			WHERE nonce <> 'raised' AND (orchestrator, session) > ($1, $2)
			ORDER BY orchestrator, session
			LIMIT $3`,
		slice: `
			SELECT orchestrator, session,
				deleted_at IS NOT NULL AND deleted_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
			FROM {runs}
			WHERE (orchestrator, session) > ($2, $3)
			ORDER BY orchestrator, session
			LIMIT $4`,
	}
	pgstate.Fill(names,
		&c.begin, &c.find, &c.adopt, &c.save, &c.delete, &c.settle, &c.raise, &c.retire, &c.known, &c.slice)
	return &c
}

// callFind returns the run that has kept r from beginning. If the fence of r is spent, callFind returns lock.ErrFenced.
// If r may begin again, it returns pgx.ErrNoRows.
func (s *Store) callFind(ctx context.Context, r snapshot.Run) (found row, err error) {
	found, err = s.callRow(ctx, readFound, s.calls.find, r.Orchestrator, r.Session, r.Fence.Epoch, false)
	if pgstate.Corrupt(err) {
		why := err
		found, err = s.callRow(ctx, readFound, s.calls.find, r.Orchestrator, r.Session, r.Fence.Epoch, true)
		found.unread = why
	}
	return found, err
}

func readFound(rows pgx.Rows) (found row, err error) {
	columns := make([]any, len(rows.FieldDescriptions()))
	var verdict string
	columns[len(columns)-1] = &verdict
	if err := rows.Scan(columns...); err != nil {
		return found, err
	}
	if verdict == "spent" {
		return found, lock.ErrFenced
	}
	return scanInto(rows, nil)
}

// callAdopt is adopt by a call. If the server cannot read the run, callAdopt adopts it without reading its documents.
func (s *Store) callAdopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (adopted row, err error) {
	args := []any{k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts}
	adopted, err = s.callRow(ctx, readAdopted, s.calls.adopt, append(args, false)...)
	if pgstate.Corrupt(err) {
		why := err
		adopted, err = s.callRow(ctx, readAdopted, s.calls.adopt, append(args, true)...)
		adopted.unread = why
	}
	return adopted, err
}

func readAdopted(rows pgx.Rows) (adopted row, err error) {
	var names, docs []string
	if adopted, err = scanInto(rows, &names, &docs); err != nil {
		return adopted, err
	}
	if len(names) != len(docs) {
		return adopted, fmt.Errorf("%d names of %d parts", len(names), len(docs))
	}
	for i, name := range names {
		if adopted.Parts == nil {
			adopted.Parts = make(map[string]json.RawMessage)
		}
		adopted.Parts[name] = json.RawMessage(docs[i])
	}
	return adopted, nil
}

// callRow calls a function that returns one run. If the function returns none, callRow returns pgx.ErrNoRows.
func (s *Store) callRow(
	ctx context.Context, read func(pgx.Rows) (row, error), sql string, args ...any,
) (r row, err error) {
	err = s.db.Answered(ctx, func() error {
		rows, err := s.db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		judged := pgx.ErrNoRows
		if rows.Next() {
			r, judged = read(rows)
		}
		rows.Close()
		return cmp.Or(rows.Err(), judged)
	})
	return r, err
}

// call calls a function that reports whether it has done its work.
func (s *Store) call(ctx context.Context, sql string, args ...any) (did bool, err error) {
	return pgstate.One(ctx, s.db, pgx.RowTo[bool], sql, args...)
}

// told is call for a function that returns false only if the fence is not the run's. Then told returns lock.ErrFenced.
func (s *Store) told(ctx context.Context, op string, k snapshot.Key, sql string, args ...any) error {
	did, err := s.call(ctx, sql, args...)
	if err == nil && !did {
		err = lock.ErrFenced
	}
	return s.error(ctx, op, k, err)
}

// Functions returns the statements that create the functions which a store with [Options].Functions calls.
func (s *Store) Functions() string { return pgstate.Once(names(s.db).Replace(functionsSQL)) }

// FunctionNames returns the quoted names of these functions.
func (s *Store) FunctionNames() []string { return s.db.FunctionNames() }
