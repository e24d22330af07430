package pgcheckpoint

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// The statement of an Append that relabels has this behind the query i. Its parameters are the last of the statement:
// the names of the labels, and their times or -1.
const relabelSQL = `, unlabeled AS (
			DELETE FROM {labels}
			WHERE orchestrator = $1 AND session = $2 AND label <> ALL({names}::text[]) AND EXISTS (SELECT FROM h)
		), labeled AS (
			INSERT INTO {labels} AS l (orchestrator, session, label, due)
			SELECT $1, $2, n.label, nullif(n.due, -1) FROM h, unnest({names}::text[], {times}::bigint[]) AS n (label, due)
			ON CONFLICT (orchestrator, label, session) DO UPDATE SET due = excluded.due
			WHERE l.due IS DISTINCT FROM excluded.due
		)`

const labeledSQL = `
		SELECT session
		FROM {labels}
		WHERE orchestrator = $1 AND session >= $2 AND session > $3 AND label = $5
		ORDER BY session
		LIMIT $4`

// The names are compared and sorted as expressions, so that only labels_due gains by an index: the primary key would
// walk all that have the label.
const dueSQL = `
		SELECT session
		FROM {labels}
		WHERE orchestrator = $1 AND session || '' >= $2 AND session || '' > $3 AND label = $5 AND due <= $6
		ORDER BY session || ''
		LIMIT $4`

// headedSQL selects the sessions of a list that have a settled turn, and with $3 those that owe. It looks up each
// session by itself: if the planner knows nothing of the heads, it may read all of them for a list.
const headedSQL = `
		SELECT h.session
		FROM unnest($2::text[]) AS w (session), LATERAL (
			SELECT * FROM {sessions} h WHERE h.orchestrator = $1 AND h.session = w.session OFFSET 0
		) h
		WHERE ` + heads + `
		ORDER BY h.session`

// headedAnySQL is headedSQL for Citus, which takes no join without the name of a session.
const headedAnySQL = `
		SELECT h.session
		FROM {sessions} h
		WHERE h.orchestrator = $1 AND h.session = ANY($2::text[]) AND ` + heads + `
		ORDER BY h.session`

const heads = `h.turn >= 0 AND (NOT $3::boolean OR h.owed IS NOT NULL
			AND (NOT $4::boolean OR h.retry_at IS NULL OR h.retry_at <= clock_timestamp())
			AND ($5::bigint = 0 OR h.retry_at > clock_timestamp() + $5::bigint * interval '1 microsecond'))`

// labeled returns a page of the sessions with a label, and where the next page begins, which is "" at the end. It looks
// each session up: a version of before, which knows no labels, may have deleted a session and left its labels.
func (s *Store) labeled(
	ctx context.Context, q checkpoint.SessionQuery, after string, size int,
) (page []string, last string, err error) {
	sql, args := s.sql.labeled, []any{q.Orchestrator, q.Prefix + q.Session, after, size, q.Label}
	only := s.sql.labeledOnly
	if by := q.DueBy(); !by.IsZero() {
		sql, only, args = s.sql.due, s.sql.dueOnly, append(args, by.UnixMilli())
	}
	if q.Session != "" {
		sql = only
	}
	found, err := pgstate.Collect(ctx, s.db, pgx.RowTo[string], 0, sql, args...)
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	if len(found) == size {
		last = found[size-1]
	}
	sql = s.sql.headed
	if s.calls != nil {
		sql = s.sql.headedAny
	}
	page, err = pgstate.Collect(ctx, s.db, pgx.RowTo[string], 0, sql,
		q.Orchestrator, found, q.Owing, q.Due, heldBack(q))
	return page, last, err
}

// relabeled returns the statement of an Append for labels, and its arguments with those of the labels.
func relabeled(sql string, args []any, labels []checkpoint.Label) (string, []any) {
	names, times := make([]string, len(labels)), make([]int64, len(labels))
	for i, l := range labels {
		if names[i], times[i] = l.Name, -1; !l.At.IsZero() {
			times[i] = l.At.UnixMilli()
		}
	}
	sql = strings.NewReplacer(
		"{names}", fmt.Sprint("$", len(args)+1), "{times}", fmt.Sprint("$", len(args)+2)).Replace(sql)
	return sql, append(args, names, times)
}
