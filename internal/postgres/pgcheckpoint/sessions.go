package pgcheckpoint

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

const firstSessions, mostSessions = 100, 1000

// Sessions reads a page of 100 names, and then pages of 1,000.
func (s *Store) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := q.Validate(); err != nil {
			yield("", err)
			return
		}
		after, left := q.After, q.Limit
		for size := firstSessions; ; size = mostSessions {
			if q.Limit > 0 && q.Label == "" {
				size = min(size, left)
			}
			page, last, err := s.sessionPage(ctx, q, after, size)
			if err != nil {
				yield("", s.error(ctx, "sessions", checkpoint.Key{}, err))
				return
			}
			for _, id := range page {
				left--
				if !strings.HasPrefix(id, q.Prefix) || !yield(id, nil) || left == 0 {
					return
				}
			}
			if after = last; last == "" || !strings.HasPrefix(last, q.Prefix) {
				return
			}
		}
	}
}

// sessionPage returns a page of the sessions after one, and where the next page begins, which is "" at the end.
func (s *Store) sessionPage(
	ctx context.Context, q checkpoint.SessionQuery, after string, size int,
) (page []string, last string, err error) {
	if q.Label != "" {
		return s.labeled(ctx, q, after, size)
	}
	sql, args := s.selection(q)
	args[2], args[3] = after, size
	page, err = pgstate.Collect(ctx, s.db, pgx.RowTo[string], 0, sql, args...)
	if err == nil && len(page) == size {
		last = page[size-1]
	}
	return page, last, err
}

// selection returns the statement for q, and its arguments but for where the page begins and how long it is.
func (s *Store) selection(q checkpoint.SessionQuery) (sql string, args []any) {
	all, owing := s.sql.sessions, s.sql.owing
	if q.Session != "" {
		all, owing = s.sql.session, s.sql.owes
	}
	args = []any{q.Orchestrator, q.Prefix + q.Session, "", 0}
	if q.Owing {
		return owing, append(args, q.Due, heldBack(q))
	}
	return all, args
}

// heldBack returns q.HeldBack in microseconds. It rounds up: the shortest time is not 0, which selects all.
func heldBack(q checkpoint.SessionQuery) int64 {
	return (q.HeldBack + time.Microsecond - 1).Microseconds()
}
