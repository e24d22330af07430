package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	// INDEXED BY is needed: by default SQLite prefers the primary key.
	runsSQL            = `SELECT ` + bare + inFlight + selected
	runsBriefSQL       = `SELECT ` + brief + inFlight + selected
	unattendedSQL      = `SELECT ` + bare + forDrain + selected
	unattendedBriefSQL = `SELECT ` + brief + forDrain + selected

	inFlight = ` FROM {prefix}runs INDEXED BY {prefix}runs_inflight WHERE `
	forDrain = ` FROM {prefix}runs INDEXED BY {prefix}runs_drain WHERE ` + unattended + ` AND `

	selected = `orchestrator = ?1 AND session > ?2 AND deleted_at IS NULL AND (?3 = '' OR status = ?3 OR ` + unknown + `)
		ORDER BY session
		LIMIT ?4`

	sessionSQL      = `SELECT ` + columns + ofSession
	sessionBriefSQL = `SELECT ` + brief + ofSession
	listedSQL       = `SELECT ` + bare + ofSession // one run as a list has it

	ofSession = ` FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?5 AND session > ?2 AND deleted_at IS NULL AND (?3 = '' OR status = ?3 OR ` + unknown + `)
		LIMIT ?4`

	// Every query selects a run with a status that no store wrote.
	unknown = `status IS NULL OR status NOT IN ('running', 'waiting', 'suspended', 'parked', 'ended')`
)

// Pages grow. The first runs of a drain should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage, briefPage = 16, 64, 500

// Runs reads pages of 16 and then 64 runs. Brief runs come in pages of 500.
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		st, err := s.db.Start(ctx, q.Validate())
		after, left := q.After, q.Limit
		for limit := firstPage; err == nil; limit = mostPage {
			if q.Brief {
				limit = briefPage
			}
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			var page []finding
			var more bool
			page, more, err = readPage(ctx, st, q, after, limit)
			for _, f := range page {
				if !yield(f.Run, f.damage) {
					return
				}
				after = f.Session
			}
			left -= len(page)
			if err == nil && (!more || q.Limit > 0 && left == 0 || q.Session != "") {
				return
			}
		}
		yield(snapshot.Run{}, fmt.Errorf("sqlitesnapshot: runs of %q: %w", q.Orchestrator, s.db.Explain(ctx, err)))
	}
}

// list returns the next runs. It stops at the first run that SQLite cannot read.
func list(
	ctx context.Context, st sqlitestore.Statements, q snapshot.Query, after string, limit int,
) ([]finding, error) {
	if q.Session != "" && q.Brief {
		return session(ctx, st[sessionBriefSQL], q, after)
	}
	if q.Session != "" {
		return session(ctx, st[sessionSQL], q, after)
	}
	all, unattended := st[runsSQL], st[unattendedSQL]
	if q.Brief {
		all, unattended = st[runsBriefSQL], st[unattendedBriefSQL]
	}
	if !q.Selects(snapshot.Suspended) && !q.Selects(snapshot.Parked) {
		all = unattended
	}
	rows, err := all.QueryContext(ctx, q.Orchestrator, after, string(q.Status), limit)
	return sqlitestore.Collect(rows, err, scan)
}

// session returns the run of one session, if it is in flight and q selects it.
func session(ctx context.Context, stmt *sql.Stmt, q snapshot.Query, after string) ([]finding, error) {
	rows, err := stmt.QueryContext(ctx, q.Orchestrator, after, string(q.Status), 1, q.Session)
	page, err := sqlitestore.Collect(rows, err, scan)
	return slices.DeleteFunc(page, func(f finding) bool { return !q.Selects(f.Status) }), err
}
