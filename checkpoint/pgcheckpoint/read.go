package pgcheckpoint

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgstate"
)

// Pages grow: Load wants only one turn, and a long history should not cost a round trip a turn.
const (
	firstTurns, mostTurns       = 1, 16
	firstSessions, mostSessions = 100, 1000
)

// Turns reads pages of 1, 4 and then 16 turns. It reads a damaged page turn by turn.
func (s *Store) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		if err := k.Validate(); err != nil {
			yield(checkpoint.Checkpoint{}, err)
			return
		}
		next := min(from, checkpoint.Newest)
		for size := firstTurns; next >= 0; size = min(4*size, mostTurns) {
			page, err := s.page(ctx, k, next, size)
			if err != nil {
				yield(checkpoint.Checkpoint{}, s.error(ctx, "turns", k, err))
				return
			}
			for _, f := range page {
				if !yield(f.Checkpoint, s.error(ctx, "turns", k, f.judge(k))) {
					return
				}
				next = f.Turn - 1
			}
			if len(page) < size {
				return
			}
		}
	}
}

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
				sql, args = s.sql.owing, append(args, q.Due)
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

// collect reads all rows, so that no connection is held when they are yielded.
func collect[T any](ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	var page []T
	err := db.Answered(ctx, func() error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, scan)
		return err
	})
	return page, err
}

func scan(row pgx.CollectableRow) (cp checkpoint.Checkpoint, err error) {
	err = row.Scan(into(&cp)...)
	cp.SavedAt = cp.SavedAt.UTC()
	return cp, err
}

// into returns the destinations for the columns of a turn.
func into(cp *checkpoint.Checkpoint) []any {
	return []any{
		&cp.Turn, (*[]byte)(&cp.State), (*[]byte)(&cp.Payload), &cp.Route, &cp.Signature, &cp.Version, &cp.RunID,
		&cp.RequestID, &cp.SavedAt,
	}
}

// intact returns a *checkpoint.DamagedError if no store wrote the turn. PostgreSQL has judged the documents.
func intact(cp checkpoint.Checkpoint, k checkpoint.Key) error {
	cp.State, cp.Payload = json.RawMessage("{}"), nil
	return cp.Intact(k)
}

// scanOne returns nil if there is no row.
func scanOne(rows pgx.Rows, err error) (*checkpoint.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	cp, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &cp, nil
}
