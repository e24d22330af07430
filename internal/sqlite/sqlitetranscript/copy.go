package sqlitetranscript

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/transcript"
)

// In a statement with spans, ?3 is an array of them. CROSS JOIN makes SQLite look for the entries of each span.
var (
	copySQL = `
		INSERT INTO {prefix}messages (orchestrator, session, first, last, id, at, body)
		SELECT ?4, ?5, e.first, e.last, NULL, ?6, e.body
		FROM ` + picked + ` AND NOT EXISTS (` + takenSQL + `)
		ON CONFLICT (orchestrator, session, first) DO NOTHING`

	takenSQL = `
		SELECT 1 FROM ` + strings.Replace(picked, "WHERE", "CROSS JOIN {prefix}messages t WHERE", 1) + `
			AND ` + within("t", "?4", "?5", "e.first", "e.last") + `
			AND (t.first <> e.first OR t.last <> e.last OR t.body <> e.body)
		LIMIT 1`

	picked = `json_each(?3) CROSS JOIN {prefix}messages e
		WHERE ` + within("e", "?1", "?2", "(json_each.value ->> 0)", "(json_each.value ->> 1)")
)

// Copy is one transaction. If its first statement copies nothing, the second one says why.
func (s *Store) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	st, err := s.db.Start(ctx, transcript.ValidateCopy(from, to, spans))
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			return copyTo(ctx, sqlitestore.Within(tx, st), from, to, array(spans))
		})
	}
	if err != nil {
		return fmt.Errorf("sqlitetranscript: copy to %q: %w", to.Session, s.explain(ctx, err))
	}
	return nil
}

func copyTo(ctx context.Context, do sqlitestore.Runner, from, to transcript.Key, spans string) error {
	args := []any{from.Orchestrator, from.Session, spans, to.Orchestrator, to.Session}
	copied, err := do.Wrote(ctx, copySQL, append(args, time.Now().UnixMicro())...)
	if err != nil || copied {
		return err
	}
	rows, err := do.Query(ctx, takenSQL, args...)
	taken, err := sqlitestore.Collect(rows, err, sqlitestore.ScanText)
	if err == nil && len(taken) > 0 {
		err = transcript.ErrTaken
	}
	return err
}

// array returns the spans as JSON. If they overlap, no entry is looked at for each of them.
func array(spans []transcript.Span) string {
	pairs := make([][2]int64, 0, len(spans))
	for _, s := range transcript.Union(spans) {
		pairs = append(pairs, [2]int64{s.From, s.Through})
	}
	text, _ := json.Marshal(pairs) // numbers
	return string(text)
}
