package pgtranscript

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/transcript"
)

// Copy is one transaction of three statements, sent together.
func (s *Store) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	if err := transcript.ValidateCopy(from, to, spans); err != nil {
		return err
	}
	var fits bool
	r := rangesOf(spans)
	err := s.locked(ctx, []transcript.Key{from, to}, false, func(b *pgx.Batch) {
		b.Queue(s.sql.copy, from.Orchestrator, from.Session, to.Orchestrator, to.Session, r.from, r.through, r.before).
			QueryRow(func(row pgx.Row) error { return row.Scan(&fits) })
	})
	switch {
	case pgstate.Corrupt(err):
		err = fmt.Errorf("%w: the server cannot read an entry: %w", transcript.ErrDamaged, err)
	case err == nil && !fits:
		err = transcript.ErrTaken
	}
	return s.db.Error(ctx, "copy", to, err)
}

// locked sends what queue adds in a transaction that makes other writers of the sessions wait. over says that the
// sessions have no entry at its end.
func (s *Store) locked(ctx context.Context, keys []transcript.Key, over bool, queue func(*pgx.Batch)) error {
	var orchestrators, sessions []string
	for _, k := range keys {
		orchestrators, sessions = append(orchestrators, k.Orchestrator), append(sessions, k.Session)
	}
	return s.db.Pipe(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql.lock, orchestrators, sessions)
		queue(b)
		b.Queue(s.sql.release, orchestrators, sessions, over)
	})
}

// ranges are spans in order, with a gap between any two. before has the end of the one before, or 0.
type ranges struct{ from, through, before []int64 }

func rangesOf(spans []transcript.Span) ranges {
	r := ranges{[]int64{}, []int64{}, []int64{}} // nil would be NULL
	end := int64(0)
	for _, s := range transcript.Union(spans) {
		r.from, r.through, r.before = append(r.from, s.From), append(r.through, s.Through), append(r.before, end)
		end = s.Through
	}
	return r
}
