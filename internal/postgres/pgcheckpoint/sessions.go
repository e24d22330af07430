package pgcheckpoint

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
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
			sql, args := s.sql.sessions, []any{q.Orchestrator, q.Prefix, after, size}
			if q.Owing {
				sql, args = s.sql.owing, append(args, q.Due, heldBack(q))
			}
			page, err := collect(ctx, s.db, pgx.RowTo[string], sql, args...)
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

// heldBack returns q.HeldBack in microseconds. It rounds up: the shortest time is not 0, which selects all.
func heldBack(q checkpoint.SessionQuery) int64 {
	return (q.HeldBack + time.Microsecond - 1).Microseconds()
}
