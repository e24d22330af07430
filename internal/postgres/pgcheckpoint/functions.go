package pgcheckpoint

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// functionsSQL creates the functions that a store with Options.Functions calls.
//
//go:embed functions.sql
var functionsSQL string

// functions are the names of all functions after the prefix. A placeholder is such a name without its number.
var functions = []string{
	"session_claim_1", "session_append_1", "session_mark_1", "session_delete_2", "session_renew_1", "session_raise_1",
	"session_retire_2", "session_relabel_1",
}

// functionNamed returns the name with its number.
func functionNamed(placeholder string) string {
	return functions[slices.IndexFunc(functions, func(f string) bool { return strings.HasPrefix(f, placeholder+"_") })]
}

// calls holds the calls that a store sends instead of statements that write. Each call is about one session.
type calls struct {
	claim, append, mark, delete, renew, raise, retire string
	// relabel calls a function for what an append returns, which has the place {append}.
	relabel string

	// owned and slice are statements that list the sessions to raise and to retire.
	owned, slice string
}

func fillCalls(names *strings.Replacer) *calls {
	c := calls{
		claim:   `SELECT * FROM {session_claim}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		append:  `SELECT {session_append}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		mark:    `SELECT {session_mark}($1, $2, $3, $4, $5, $6, $7, $8)`,
		delete:  `SELECT {session_delete}($1, $2, $3, $4)`,
		renew:   `SELECT {session_renew}($1, $2, $3, $4, $5, $6)`,
		raise:   `SELECT {session_raise}($1, $2)`,
		retire:  `SELECT {session_retire}($1, $2, $3, {unsettled})`,
		relabel: `SELECT {session_relabel}(a.verdict, $1, $2, {names}, {times}) FROM ({append} AS verdict OFFSET 0) a`,
		owned: `
			SELECT orchestrator, session
			FROM {sessions}
			WHERE nonce <> '' AND (orchestrator, session) > ($1, $2)
			ORDER BY orchestrator, session
			LIMIT $3`,
		slice: `
			SELECT orchestrator, session,
				owed IS NULL AND lease_until < statement_timestamp()
					- CASE WHEN turn < 0 THEN least($1::bigint, {unsettled}) ELSE $1::bigint END * interval '1 microsecond'
			FROM {sessions}
			WHERE (orchestrator, session) > ($2, $3)
			ORDER BY orchestrator, session
			LIMIT $4`,
	}
	pgstate.Fill(names,
		&c.claim, &c.append, &c.mark, &c.delete, &c.renew, &c.raise, &c.retire, &c.relabel, &c.owned, &c.slice)
	return &c
}

// settling returns the call of an append, and the call with new labels.
func (c *calls) settling(append string) settling {
	return settling{append, strings.Replace(c.relabel, "{append}", append, 1)}
}

// callClaim claims a session. If there is no such session, callClaim creates it. With brief, it reads no turn. If
// r.From is not the owner, it returns pgx.ErrNoRows.
func (s *Store) callClaim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest, brief bool,
) (c checkpoint.Claimed, err error) {
	err = s.db.Answered(ctx, func() error {
		rows, err := s.db.Query(ctx, s.calls.claim, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds(),
			r.From.Epoch, r.From.Nonce, r.Born, r.RequestID, brief)
		if err != nil {
			return err
		}
		defer rows.Close()
		c = checkpoint.Claimed{Lease: checkpoint.Lease{Key: k}}
		judged, more := pgx.ErrNoRows, true
		for more && rows.Next() {
			judged = readVerdict(rows, &c, r, brief)
			more = judged == nil
		}
		rows.Close()
		return cmp.Or(rows.Err(), judged)
	})
	return c, err
}

// readVerdict adds a row that a claim returned to c. Its error says why the claim was refused.
func readVerdict(rows pgx.Rows, c *checkpoint.Claimed, r checkpoint.ClaimRequest, brief bool) (err error) {
	var verdict string
	columns := make([]any, len(rows.FieldDescriptions()))
	columns[0] = &verdict
	if err := rows.Scan(columns...); err != nil {
		return err
	}
	switch verdict {
	case "granted":
		return readGranted(rows, columns, c, brief)
	case "answered":
		c.Answered, err = readTurn(rows, columns, c.Key)
		return err
	}
	columns[1] = &c.Fence.Epoch
	if verdict == "headless" {
		c.Fence.Nonce = r.Nonce
		return cmp.Or(rows.Scan(columns...), error(checkpoint.Damaged(c.Key, checkpoint.ErrNoHead)))
	}
	var owner string
	columns[2], columns[3] = &c.Fence.Nonce, &owner
	return cmp.Or(rows.Scan(columns...), refusal(verdict, owner, c.Fence))
}

func readGranted(rows pgx.Rows, columns []any, c *checkpoint.Claimed, brief bool) error {
	var newest int
	copy(columns[1:], []any{
		&c.Fence.Epoch, &c.Fence.Nonce, nil, &c.Born, &newest, &c.Summarized, &c.Delivered, &c.Failed,
	})
	err := rows.Scan(columns...)
	if err == nil {
		err = c.Intact(newest)
	}
	if err != nil || newest < 0 || brief {
		return err
	}
	if rows.RawValues()[firstOfTurn] == nil {
		return checkpoint.DamagedTurn(c.Key, newest, errors.New("it is missing, and it is the newest"))
	}
	c.Last, err = readTurn(rows, columns, c.Key)
	return err
}

// firstOfTurn is the first column of the turn in the rows of a claim.
const firstOfTurn = 9

func readTurn(rows pgx.Rows, columns []any, k checkpoint.Key) (*checkpoint.Checkpoint, error) {
	clear(columns)
	var f finding
	if err := f.scan(rows, columns[:firstOfTurn]...); err != nil {
		return nil, err
	}
	return &f.Checkpoint, f.judge(k)
}

// callAppend settles a turn. sql may be the call of a joined store of runs, which reports that it has forgotten the
// run.
func (s *Store) callAppend(
	ctx context.Context, o checkpoint.AppendOptions, sql string, args ...any,
) (forgotten bool, err error) {
	verdict, err := pgstate.One(ctx, s.db, pgx.RowTo[string], sql, args...)
	if err != nil {
		return false, err
	}
	switch verdict {
	case "appended":
		return false, nil
	case "forgotten":
		return true, nil
	case "settled":
		return false, o.Known()
	case "conflict":
		return false, checkpoint.ErrConflict
	case "fenced":
		return false, lock.ErrFenced
	}
	return false, fmt.Errorf("append returned %q", verdict)
}

// callRenew renews the leases in the order of their keys. On PostgreSQL the calls are one transaction, and two
// transactions that lock in different orders may deadlock.
func (s *Store) callRenew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (map[checkpoint.Lease]bool, error) {
	sorted := slices.SortedFunc(slices.Values(leases), func(a, b checkpoint.Lease) int {
		return cmp.Or(strings.Compare(a.Orchestrator, b.Orchestrator), strings.Compare(a.Session, b.Session))
	})
	calls := make([][]any, len(sorted))
	for i, l := range sorted {
		calls[i] = []any{
			l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, ttl.Microseconds(),
			patience(ttl, len(leases)).Milliseconds(),
		}
	}
	returned, err := s.db.Calls(ctx, s.calls.renew, calls)
	if err != nil {
		return nil, err
	}
	renewed := make(map[checkpoint.Lease]bool, len(sorted))
	for i, l := range sorted {
		renewed[l] = returned[i]
	}
	return renewed, nil
}

// Functions returns the statements that create the functions which a store with [Options].Functions calls.
func (s *Store) Functions() string { return pgstate.Once(s.Fill(functionsSQL)) }

// FunctionNames returns the quoted names of these functions.
func (s *Store) FunctionNames() []string { return s.db.FunctionNames() }
