package pgworkflow

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// Claim implements [workflow.Store]. It is one statement, and does not wait for the disk. If runs are held as Crashed
// by it, it is one more.
func (s *Store) Claim(
	ctx context.Context, r workflow.ClaimRequest,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	if err := r.Validate(); err != nil {
		return nil, 0, err
	}
	switch {
	case len(r.Definitions) == 0 && r.Lease > 0:
		_, err = pgstate.One(ctx, s.db, pgx.RowTo[string], s.sql.forget, r.Process)
	case len(r.Definitions) == 0 || r.Limit == 0 && r.Lease == 0:
	case r.From != "" || r.Lease > 0:
		claimed, err = s.takeOver(ctx, &r)
	case r.Again == "" && len(r.Limits) > 0:
		claimed, next, err = s.claimWithin(ctx, &r)
	default:
		claimed, next, err = s.claim(ctx, &r, r.Limit, nil)
	}
	if len(claimed) == r.Limit {
		next = 0
	}
	return claimed, next, s.error(ctx, "claim", "", err)
}

// takeOver claims what others have lost. What is held as Crashed counts to the limit of one statement. So takeOver goes
// on until a statement holds none.
func (s *Store) takeOver(ctx context.Context, r *workflow.ClaimRequest) (claimed []workflow.Claimed, err error) {
	for {
		var since *time.Time
		if len(claimed) > 0 {
			first := slices.MinFunc(claimed, func(a, b workflow.Claimed) int { return a.Now.Compare(b.Now) })
			since = &first.Now
		}
		some, _, err := s.claim(ctx, r, r.Limit-len(claimed), since)
		all := len(some)
		some = slices.DeleteFunc(some, func(c workflow.Claimed) bool { return c.Owner == "" })
		claimed = append(claimed, some...)
		if err != nil || all == len(some) {
			return claimed, err
		}
	}
}

// claim sends the statement of a claim. since is since when the process has what it has claimed before by r, if any.
func (s *Store) claim(
	ctx context.Context, r *workflow.ClaimRequest, limit int, since *time.Time,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	sql, args := s.sql.claim, []any{limit, r.Process, r.Nonce}
	switch {
	case r.From != "":
		sql, args = s.sql.from, append(args, min(r.MostCrashes, math.MaxInt32), r.From, since)
	case r.Lease > 0:
		sql, args = s.sql.lease, append(args, min(r.MostCrashes, math.MaxInt32), r.Lease.Microseconds(), since)
	case r.Again != "":
		sql, args = s.sql.again, append(args, r.Again)
	}
	return s.claimAll(ctx, r.Definitions, call{sql: sql, args: args})
}

// claimAll sends the statement of a claim, the last of calls, after the others. If the server cannot read a document,
// claimAll leaves the documents out.
func (s *Store) claimAll(
	ctx context.Context, defs []workflow.Definition, calls ...call,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	last := &calls[len(calls)-1]
	sql := strings.ReplaceAll(last.sql, "{definitions}", definitions(defs))
	last.sql = strings.ReplaceAll(sql, "{documents}", documents)
	claimed, next, err = s.claimBy(ctx, calls)
	if pgstate.Corrupt(err) {
		last.sql = strings.ReplaceAll(sql, "{documents}", unread)
		return s.claimUnread(ctx, calls)
	}
	return claimed, next, err
}

// definitions returns the rows of definitions, as a part of a statement. The text is the same in each claim of a
// process, so that the statement stays prepared. With arrays PostgreSQL would plan it anew in each execution.
func definitions(all []workflow.Definition) string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b workflow.Definition) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Version, b.Version))
	})
	var b strings.Builder
	for i, d := range slices.Compact(all) {
		b.WriteString(", ('" + d.Workflow + "'::text, " + strconv.Itoa(d.Version) + ")") // such a name has no quotes
		if i == 0 {
			rest := strings.TrimPrefix(b.String(), ", ")
			b.Reset()
			b.WriteString("(VALUES " + rest)
		}
	}
	return b.String() + ") AS k (workflow, version)"
}

func (s *Store) claimBy(
	ctx context.Context, calls []call,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	calls[len(calls)-1].read = func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			c, wait, err := scanClaimed(rows)
			if err != nil {
				return err
			}
			if next = wait; c != nil {
				claimed = append(claimed, *c)
			}
		}
		return rows.Err()
	}
	err = s.db.Answered(ctx, func() error {
		claimed, next = nil, 0
		return s.pipe(ctx, calls)
	})
	return claimed, next, err
}

// scanClaimed returns a run that was claimed; nil if none was. It also returns when the next one is due.
func scanClaimed(rows pgx.Rows) (c *workflow.Claimed, next time.Duration, err error) {
	const skipped = 3 // next, lazy, was
	var wait *int64
	into := []any{&wait, nil, nil}
	if columns := rows.RawValues(); columns[skipped] == nil {
		err = rows.Scan(append(into, make([]any, len(columns)-skipped)...)...)
		return nil, soon(wait), err
	}
	var r row
	c = new(workflow.Claimed)
	err = rows.Scan(slices.Concat(into, []any{&c.Fence.Epoch, &c.Fence.Nonce, &c.Mail, &c.Now}, r.into())...)
	r.fill()
	c.Run, c.Now = r.Run, c.Now.UTC()
	return c, soon(wait), err
}

// soon returns how long it is until a run is due; 0 if none is known.
func soon(microseconds *int64) time.Duration {
	if microseconds == nil {
		return 0
	}
	return max(time.Duration(*microseconds)*time.Microsecond, 1)
}
