package pgtranscript

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/transcript"
)

// Trim is one transaction of three statements, sent together.
func (s *Store) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (deleted int, err error) {
	if err := transcript.ValidateRead(k, spans); err != nil {
		return 0, err
	}
	all := len(spans) == 0 && before.IsZero()
	sql, args := s.sql.trimAll, []any{k.Orchestrator, k.Session}
	if !all {
		r := rangesOf(spans)
		sql, args = s.sql.trim, append(args, r.from, r.through, instant(before))
	}
	err = s.locked(ctx, []transcript.Key{k}, all, func(b *pgx.Batch) {
		b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&deleted) })
	})
	if err != nil {
		return 0, s.db.Error(ctx, "trim", k, err)
	}
	return deleted, nil
}

// instant returns a time as PostgreSQL takes it in every mode of the driver. Entries are of the years between.
func instant(t time.Time) pgtype.Timestamptz {
	switch t = t.UTC(); {
	case t.Year() < 1:
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	case t.Year() > 9999:
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}
