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
			if q.Limit > 0 {
				size = min(size, left)
			}
			sql, args := s.selection(q)
			args[2], args[3] = after, size
			page, err := pgstate.Collect(ctx, s.db, pgx.RowTo[string], 0, sql, args...)
			if err != nil {
				yield("", s.error(ctx, "sessions", checkpoint.Key{}, err))
				return
			}
			for _, id := range page {
				if !strings.HasPrefix(id, q.Prefix) || !yield(id, nil) {
					return
				}
				after = id
			}
			if left -= len(page); len(page) < size || left == 0 {
				return
			}
		}
	}
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
