package sqlitetranscript

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/transcript"
)

const trimAllSQL = `
	DELETE FROM {prefix}messages WHERE orchestrator = ?1 AND session = ?2 RETURNING last - first + 1`

var trimSQL = `
	DELETE FROM {prefix}messages
	WHERE orchestrator = ?1 AND session = ?2 AND at < ?4
		AND first < (SELECT max(first) FROM {prefix}messages WHERE orchestrator = ?1 AND session = ?2)
		AND first NOT IN (
			SELECT e.first FROM ` + picked + `
		)
	RETURNING last - first + 1`

// Trim is one transaction of one statement.
func (s *Store) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (deleted int, err error) {
	text, args := trimSQL, []any{k.Orchestrator, k.Session}
	if len(spans) == 0 && before.IsZero() {
		text = trimAllSQL
	} else {
		args = append(args, array(spans), micro(before))
	}
	st, err := s.db.Start(ctx, transcript.ValidateRead(k, spans))
	var all []int
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			rows, err := sqlitestore.Within(tx, st).Query(ctx, text, args...)
			all, err = sqlitestore.Collect(rows, err, scanCount)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("sqlitetranscript: trim %q: %w", k.Session, s.explain(ctx, err))
	}
	for _, n := range all {
		deleted += n
	}
	return deleted, nil
}

func scanCount(rows *sql.Rows) (n int, err error) {
	err = rows.Scan(&n)
	return n, err
}

// micro returns a time in µs, or the nearest that there is.
func micro(t time.Time) int64 {
	switch {
	case t.Year() < -9999:
		return math.MinInt64
	case t.Year() > 9999:
		return math.MaxInt64
	}
	return t.UnixMicro()
}
