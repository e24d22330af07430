package sqlitecheckpoint

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	sessionsSQL = `
		SELECT session FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session >= ?2 AND session < ?3 AND session <> ?4 AND turn >= 0
		ORDER BY session
		LIMIT ?5`

	// INDEXED BY, because SQLite would prefer the primary key.
	owingSQL = `
		SELECT session FROM {prefix}sessions INDEXED BY {prefix}sessions_owed
		WHERE orchestrator = ?1 AND session >= ?2 AND session < ?3 AND session <> ?4 AND owed IS NOT NULL
			AND retry_at <= ?6 AND retry_at > ?7
		ORDER BY session
		LIMIT ?5`

	sessionsPage = 500
)

// Sessions reads pages of 500 names.
func (s *Store) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		st, err := s.db.Start(ctx, q.Validate())
		text, more := selection(q)
		for after, left := q.After, q.Limit; err == nil; {
			limit := sessionsPage
			if q.Limit > 0 {
				limit = min(left, sessionsPage)
			}
			var page []string
			from, to := q.Prefix, successor(q.Prefix)
			if q.Session != "" {
				from, to = q.Session, q.Session+"\x00" // which no name has
			}
			args := append([]any{q.Orchestrator, max(from, after), to, after, limit}, more...)
			rows, e := st[text].QueryContext(ctx, args...)
			page, err = sqlitestore.Collect(rows, e, sqlitestore.ScanText)
			for _, name := range page {
				if !yield(name, nil) {
					return
				}
				after = name
			}
			left -= len(page)
			if err == nil && (len(page) < limit || left == 0) {
				return
			}
		}
		yield("", fmt.Errorf("sqlitecheckpoint: sessions of %q: %w", q.Orchestrator, s.db.Explain(ctx, err)))
	}
}

// selection returns the statement for q, and the arguments that sessionsSQL does not take.
func selection(q checkpoint.SessionQuery) (text string, more []any) {
	if q.Label == "" {
		return owing(q)
	}
	_, due := owing(q)
	return labeled(q, due)
}

// owing returns the statement for q without its label, and the arguments that only owingSQL takes.
func owing(q checkpoint.SessionQuery) (text string, due []any) {
	switch {
	case q.Due:
		return owingSQL, []any{time.Now().UnixMicro(), -1}
	case q.HeldBack > 0:
		return owingSQL, []any{int64(math.MaxInt64), time.Now().Add(q.HeldBack).UnixMicro()}
	case q.Owing:
		return owingSQL, []any{int64(math.MaxInt64), -1}
	}
	return sessionsSQL, nil
}

// successor returns a bound above all names that start with prefix, and not above any other name that is greater. No
// byte of UTF-8 is 0xFF, so the last byte can always be raised.
func successor(prefix string) string {
	if prefix == "" {
		return "\xff"
	}
	last := len(prefix) - 1
	return prefix[:last] + string([]byte{prefix[last] + 1})
}
