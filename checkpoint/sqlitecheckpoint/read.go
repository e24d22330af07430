package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlitestore"
)

const (
	turnsSQL = `
		SELECT turn, state, payload, route, signature, version, run_id, coalesce(request_id, ''), saved_at
		FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND turn <= ?3
		ORDER BY turn DESC
		LIMIT ?4`

	// numbersSQL finds the turns of a page by the index, without the rows.
	numbersSQL = `
		SELECT turn FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND turn <= ?3
		ORDER BY turn DESC
		LIMIT ?4`

	answeredSQL = `
		SELECT turn, state, payload, route, signature, version, run_id, request_id, saved_at
		FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND request_id = ?3 AND turn <= ?4
		ORDER BY turn DESC
		LIMIT 1`

	sessionsSQL = `
		SELECT session FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session >= ?2 AND session < ?3 AND session <> ?4 AND turn >= 0
		ORDER BY session
		LIMIT ?5`

	// INDEXED BY, because SQLite would prefer the primary key.
	owingSQL = `
		SELECT session FROM {prefix}sessions INDEXED BY {prefix}sessions_owed
		WHERE orchestrator = ?1 AND session >= ?2 AND session < ?3 AND session <> ?4 AND owed IS NOT NULL
			AND retry_at <= ?6
		ORDER BY session
		LIMIT ?5`
)

const noRoute = "[]"

// Pages of turns grow: most readers want the newest, some want them all.
const (
	turnsPage    = 16
	sessionsPage = 500
)

// Turns reads pages of 1, 4 and then 16 turns.
func (s *Store) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		st, err := s.db.Start(ctx, k.Validate())
		turn := from
		for limit := 1; err == nil; limit = min(4*limit, turnsPage) {
			var page []finding
			page, err = readTurns(ctx, st, k, turn, limit)
			for _, f := range page {
				if !yield(f.Checkpoint, f.judge(k)) {
					return
				}
				turn = f.Turn - 1
			}
			if err == nil && len(page) < limit {
				return
			}
		}
		yield(checkpoint.Checkpoint{},
			fmt.Errorf("sqlitecheckpoint: turns of %q: %w", k.Session, s.db.Explain(ctx, err)))
	}
}

// readTurns returns the next turns from one downwards. If SQLite cannot read them all, readTurns reads them one by one.
// Of a turn that cannot be read it returns the number.
func readTurns(
	ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, from, limit int,
) (page []finding, err error) {
	rows, err := st[turnsSQL].QueryContext(ctx, k.Orchestrator, k.Session, from, limit)
	page, err = sqlitestore.Collect(rows, err, scan)
	if !sqlitestore.Corrupt(err) {
		return page, err
	}
	rows, e := st[numbersSQL].QueryContext(ctx, k.Orchestrator, k.Session, from, limit)
	numbers, e := sqlitestore.Collect(rows, e, scanNumber)
	if e != nil {
		return page, err
	}
	page = nil
	for _, n := range numbers {
		rows, err := st[turnsSQL].QueryContext(ctx, k.Orchestrator, k.Session, n, 1)
		one, err := sqlitestore.Collect(rows, err, scan)
		switch {
		case sqlitestore.Corrupt(err):
			page = append(page, finding{checkpoint.Checkpoint{Turn: n}, err})
		case err != nil:
			return page, err
		case len(one) == 0 || one[0].Turn != n:
			return page, nil // pruned since, with all older turns
		default:
			page = append(page, one...)
		}
	}
	return page, nil
}

func scanNumber(rows *sql.Rows) (n int, err error) {
	err = rows.Scan(&n)
	return n, err
}

// Sessions reads pages of 500 names.
func (s *Store) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		st, err := s.db.Start(ctx, q.Validate())
		text, due := selection(q)
		for after, left := q.After, q.Limit; err == nil; {
			limit := sessionsPage
			if q.Limit > 0 {
				limit = min(left, sessionsPage)
			}
			var page []string
			args := append([]any{q.Orchestrator, max(q.Prefix, after), successor(q.Prefix), after, limit}, due...)
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

// selection returns the statement for q, and the argument that only owingSQL takes.
func selection(q checkpoint.SessionQuery) (text string, due []any) {
	switch {
	case q.Due:
		return owingSQL, []any{time.Now().UnixMicro()}
	case q.Owing:
		return owingSQL, []any{int64(math.MaxInt64)}
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

// one returns the checkpoint of k that a query finds, or nil.
func one(ctx context.Context, stmt *sql.Stmt, k checkpoint.Key, args ...any) (*checkpoint.Checkpoint, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	page, err := sqlitestore.Collect(rows, err, scan)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	return &page[0].Checkpoint, page[0].judge(k)
}

// A finding is a turn. unread says why the turn could not be read, and is nil if it could.
type finding struct {
	checkpoint.Checkpoint
	unread error
}

// judge returns a *checkpoint.DamagedError if no store wrote the turn.
func (f *finding) judge(k checkpoint.Key) error {
	if f.unread != nil {
		return checkpoint.DamagedTurn(k, f.Turn, f.unread)
	}
	return f.Intact(k)
}

// scan reads a row. Its error is an error of the database.
func scan(rows *sql.Rows) (f finding, err error) {
	f.Checkpoint, f.unread = scanColumns(rows)
	return f, rows.Err()
}

// scanColumns reads the columns. If a column cannot be read, the columns before it still are. The number is the first
// column.
func scanColumns(rows *sql.Rows) (cp checkpoint.Checkpoint, err error) {
	var route []byte
	var savedAt int64
	err = rows.Scan(&cp.Turn, (*[]byte)(&cp.State), (*[]byte)(&cp.Payload), &route,
		&cp.Signature, &cp.Version, &cp.RunID, &cp.RequestID, &savedAt)
	if err != nil {
		return cp, err
	}
	cp.SavedAt = time.UnixMicro(savedAt).UTC()
	if string(route) != noRoute {
		if err := json.Unmarshal(route, &cp.Route); err != nil {
			return cp, fmt.Errorf("route: %w", err)
		}
	}
	return cp, nil
}

func clone(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	c := *cp
	c.State = slices.Clone(cp.State)
	c.Payload = slices.Clone(cp.Payload)
	c.Route = slices.Clone(cp.Route)
	return &c
}
