package sqlitestream

import (
	"context"
	"database/sql"
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/stream"
)

const sliceSQL = `
	SELECT orchestrator, session, at <= ?3 FROM {prefix}streams
	WHERE (orchestrator, session) > (?1, ?2)
	ORDER BY orchestrator, session
	LIMIT ?4`

// sweepBatch is how many sessions one transaction forgets. All writers wait meanwhile.
const sweepBatch = 20

// Sweep implements [stream.Sweeper]. It forgets sessions in transactions of 20. With a limit it looks at a part of the
// sessions, and goes on there the next time.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	st, err := s.db.Start(ctx)
	if err == nil {
		forgotten, err = s.cursor.Sweep(limit, func(
			after stream.Key, rows, most int,
		) (sqlitestore.Slice[stream.Key], error) {
			return s.sweepSlice(ctx, st, after, rows, most)
		})
	}
	return forgotten, s.error(ctx, "sweep", stream.Key{}, err)
}

// A candidate is a session, and whether it is too old.
type candidate struct {
	stream.Key
	old bool
}

// sweepSlice looks at the next sessions after a place, and forgets most of them at most.
func (s *Store) sweepSlice(
	ctx context.Context, st sqlitestore.Statements, after stream.Key, rows, most int,
) (got sqlitestore.Slice[stream.Key], err error) {
	until := s.since()
	found, err := st[sliceSQL].QueryContext(ctx, after.Orchestrator, after.Session, until, rows)
	all, err := sqlitestore.Collect(found, err, func(rows *sql.Rows) (c candidate, err error) {
		err = rows.Scan(&c.Orchestrator, &c.Session, &c.old)
		return c, err
	})
	if err != nil || len(all) == 0 {
		return got, err
	}
	got.Rows, got.Last = len(all), all[len(all)-1].Key
	old := slices.DeleteFunc(all, func(c candidate) bool { return !c.old })
	for some := range slices.Chunk(old[:min(most, len(old))], sweepBatch) {
		n := 0
		err := s.db.Write(ctx, func(tx *sql.Tx) error {
			n = 0
			for _, c := range some {
				removed, err := s.remove(ctx, tx, st, c.Key, until)
				if err != nil {
					return err
				}
				if removed {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return got, err
		}
		got.Removed += n
	}
	return got, nil
}
