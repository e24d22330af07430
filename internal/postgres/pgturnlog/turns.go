package pgturnlog

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Pages grow. The first turns should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 16, 64

// Turns implements [turnlog.Lister]. It reads pages of 16 and then 64 turns.
func (l *Log) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) {
		if err := q.Validate(); err != nil {
			yield(turnlog.Summary{}, err)
			return
		}
		err := l.turns(ctx, q, yield)
		if err != nil {
			yield(turnlog.Summary{}, l.error(ctx, "turns", "", err))
		}
	}
}

// turns yields what q selects. It returns nil if yield asks it to stop.
func (l *Log) turns(ctx context.Context, q turnlog.Query, yield func(turnlog.Summary, error) bool) error {
	left, after := q.Limit, pgtype.Timestamptz{Time: q.After.UTC(), Valid: !q.After.IsZero() || q.AfterRun != ""}
	for size := firstPage; ; size = mostPage {
		if q.Limit > 0 {
			size = min(size, left)
		}
		page, err := l.page(ctx, q, after, size)
		for _, r := range page {
			if err := ctxcause.Of(ctx); err != nil {
				return err
			}
			if !yield(r.Summary, l.error(ctx, "turns", r.First.Run, r.intact())) {
				return nil
			}
			after, q.AfterRun = r.begins, r.First.Run
		}
		left -= len(page)
		if err != nil || len(page) < size || q.Limit > 0 && left == 0 {
			return err
		}
	}
}

// page returns the next turns. They are behind after, which takes the place of q.After: it may be infinite. If the
// server cannot read the states of all, page reads the turns one by one. Of a turn whose states the server cannot read,
// page returns the rest.
func (l *Log) page(
	ctx context.Context, q turnlog.Query, after pgtype.Timestamptz, size int,
) ([]turnRow, error) {
	page, err := l.list(ctx, l.sql.list, q, after, size)
	if !pgstate.Corrupt(err) {
		return page, err
	}
	page, err = l.list(ctx, l.sql.listBrief, q, after, size)
	for i, r := range page {
		alone, err := l.alone(ctx, l.sql.list, r.First.Run)
		switch {
		case pgstate.Corrupt(err):
			page[i].unread = err
		case err != nil:
			return page[:i], err
		case len(alone) == 1: // otherwise it was pruned since
			page[i] = alone[0]
		}
	}
	return page, err
}

func (l *Log) list(
	ctx context.Context, sql string, q turnlog.Query, after pgtype.Timestamptz, size int,
) ([]turnRow, error) {
	where, args := where(q, after)
	selected := fmt.Sprintf("%s ORDER BY first, run LIMIT %d", where, size)
	return pgstate.Collect(ctx, l.db, scanTurn, size, strings.Replace(sql, "{selected}", selected, 1), args...)
}

// alone returns the turn of a run.
func (l *Log) alone(ctx context.Context, sql, run string) ([]turnRow, error) {
	return pgstate.Collect(ctx, l.db, scanTurn, 1, strings.Replace(sql, "{selected}", "run = $1::text", 1), run)
}

// where returns the condition of q and its arguments. A field that is not set has no part in it, so that the planner
// sees which index serves.
func where(q turnlog.Query, after pgtype.Timestamptz) (string, []any) {
	conditions := []string{"true"}
	var args []any
	add := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		conditions = append(conditions, condition)
	}
	if q.Open {
		add("open")
	}
	if q.Session != "" {
		add("session = ?::text", q.Session)
	}
	if q.Orchestrator != "" {
		add("orchestrator = ?::text", q.Orchestrator)
	}
	if q.OlderThan > 0 {
		add("last <= statement_timestamp() - ?::bigint * interval '1 microsecond'", q.OlderThan.Microseconds())
	}
	switch {
	case q.AfterRun != "":
		add("(first, run) > (?::timestamptz, ?::text)", after, q.AfterRun)
	case after.Valid:
		add("first > ?::timestamptz", after)
	}
	return strings.Join(conditions, " AND "), args
}
