package sqliteturnlog

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

// INDEXED BY is needed: an analyzed SQLite may prefer the primary key.
const (
	listSQL        = columns + `a.state, z.state` + fromAll
	listOpenSQL    = columns + `a.state, z.state` + fromOpen
	listSessionSQL = columns + `a.state, z.state` + fromSession

	listBriefSQL        = columns + `NULL, NULL` + fromAll
	listOpenBriefSQL    = columns + `NULL, NULL` + fromOpen
	listSessionBriefSQL = columns + `NULL, NULL` + fromSession

	columns = `SELECT l.run, l.first, l.orchestrator, l.session, l.turn, l.last, a.phase, z.phase, `

	fromAll     = ` FROM {prefix}logged l INDEXED BY {prefix}logged_first` + ends + `WHERE ` + selected
	fromOpen    = ` FROM {prefix}logged l INDEXED BY {prefix}logged_open` + ends + `WHERE l.open = 1 AND ` + selected
	fromSession = ` FROM {prefix}logged l INDEXED BY {prefix}logged_session` + ends + `WHERE l.session = ?4 AND ` + selected

	// ends finds the first and the last entry.
	ends = `
		LEFT JOIN {prefix}phases a ON a.run = l.run AND a.at = l.first AND a.phase = (
			SELECT phase FROM {prefix}phases WHERE run = l.run AND at = l.first ORDER BY phase LIMIT 1)
		LEFT JOIN {prefix}phases z ON z.run = l.run AND z.at = l.last AND z.phase = (
			SELECT phase FROM {prefix}phases WHERE run = l.run AND at = l.last ORDER BY phase DESC LIMIT 1)
		`

	selected = `(l.first, l.run) > (?1, ?2) AND (?3 = '' OR l.orchestrator = ?3) AND (?4 = '' OR l.session = ?4)
			AND l.last <= ?5
		ORDER BY l.first, l.run
		LIMIT ?6`
)

// Pages grow. The first turns should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 16, 64

// Turns reads pages of 16 and then 64 turns. It looks at the turns that are open, or at those of the session. A query
// for the orchestrator only looks at the turns of the others too.
func (l *Log) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) {
		st, err := l.db.Start(ctx, q.Validate())
		if err == nil {
			err = turns(ctx, st, q, yield)
		}
		if err != nil {
			yield(turnlog.Summary{}, fmt.Errorf("sqliteturnlog: turns: %w", l.db.Explain(ctx, err)))
		}
	}
}

// turns yields what q selects. It returns nil if yield asks it to stop.
func turns(
	ctx context.Context, st sqlitestore.Statements, q turnlog.Query, yield func(turnlog.Summary, error) bool,
) error {
	at := begin(q)
	left := q.Limit
	for size := firstPage; ; size = mostPage {
		if q.Limit > 0 {
			size = min(size, left)
		}
		page, err := readPage(ctx, st, q, at, size)
		for _, t := range page {
			if err := ctxcause.Of(ctx); err != nil {
				return err
			}
			if !yield(t.Summary, t.damage) {
				return nil
			}
			at = place{t.begins, t.First.Run}
		}
		left -= len(page)
		if err != nil || len(page) < size || q.Limit > 0 && left == 0 {
			return err
		}
	}
}

// A place is where a page begins: after this time and this run.
type place struct {
	first int64
	run   string
}

// begin returns where the first page of q begins. Each turn of a time is after the empty run.
func begin(q turnlog.Query) place {
	switch {
	case q.After.IsZero():
		return place{-1, ""}
	case q.AfterRun == "":
		return place{q.After.UnixMilli() + 1, ""}
	}
	return place{q.After.UnixMilli(), q.AfterRun}
}

// list returns the next turns. It stops at the first turn that SQLite cannot read.
func list(
	ctx context.Context, st sqlitestore.Statements, q turnlog.Query, after place, limit int, brief bool,
) ([]line, error) {
	texts := [2]string{listSQL, listBriefSQL}
	switch {
	case q.Open:
		texts = [2]string{listOpenSQL, listOpenBriefSQL}
	case q.Session != "":
		texts = [2]string{listSessionSQL, listSessionBriefSQL}
	}
	stmt := st[texts[0]]
	if brief {
		stmt = st[texts[1]]
	}
	youngest := int64(1<<63 - 1)
	if q.OlderThan > 0 {
		youngest = time.Now().Add(-q.OlderThan).UnixMilli()
	}
	rows, err := stmt.QueryContext(ctx, after.first, after.run, q.Orchestrator, q.Session, youngest, limit)
	return sqlitestore.Collect(rows, err, scanTurn)
}
