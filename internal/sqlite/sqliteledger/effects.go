package sqliteledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
)

// INDEXED BY is needed: by default SQLite prefers the primary key, or the index of what is open.
const (
	listSQL        = `SELECT ` + columns + fromAll
	listOpenSQL    = `SELECT ` + columns + fromOpen
	listRunSQL     = `SELECT ` + columns + fromRun
	listSessionSQL = `SELECT ` + columns + fromSession
	listIDSQL      = `SELECT ` + columns + fromID
	listAnswersSQL = `SELECT ` + columns + fromAnswers

	listBriefSQL        = `SELECT ` + brief + fromAll
	listOpenBriefSQL    = `SELECT ` + brief + fromOpen
	listRunBriefSQL     = `SELECT ` + brief + fromRun
	listSessionBriefSQL = `SELECT ` + brief + fromSession
	listIDBriefSQL      = `SELECT ` + brief + fromID
	listAnswersBriefSQL = `SELECT ` + brief + fromAnswers

	fromAll     = ` FROM {prefix}effects NOT INDEXED WHERE ` + selected
	fromOpen    = ` FROM {prefix}effects INDEXED BY {prefix}effects_open WHERE ` + open + ` AND ` + selected
	fromRun     = ` FROM {prefix}effects INDEXED BY {prefix}effects_run WHERE run_id = ?4 AND ` + selected
	fromSession = ` FROM {prefix}effects INDEXED BY {prefix}effects_session WHERE session = ?3 AND ` + selected
	fromID      = ` FROM {prefix}effects WHERE id = ?5 AND ` + selected
	fromAnswers = ` FROM {prefix}effects INDEXED BY {prefix}effects_answer WHERE answered_at >= ?8 AND ` + selected

	selected = `number > ?1 AND (?2 = '' OR orchestrator = ?2) AND (?3 = '' OR session = ?3)
			AND (?4 = '' OR run_id = ?4) AND (?5 = '' OR id = ?5) AND (NOT ?6 OR ` + open + `)
			AND (?8 = 0 OR answered_at >= ?8)
		ORDER BY number
		LIMIT ?7`
)

// Pages grow. The first effects should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage, briefPage = 16, 64, 1000

// Effects reads pages of 16 and then 64 effects. It looks at the effects of the run, or at those that a person has
// answered, or at those that are open, or at those of the session. A query for the orchestrator only, or for nothing,
// looks at all.
func (l *Ledger) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		st, err := l.db.Start(ctx, q.Validate())
		var after int64
		most := mostPage
		if q.Brief {
			most = briefPage
		}
		for limit := firstPage; err == nil; limit = most {
			var page []finding
			var more bool
			page, more, err = readPage(ctx, st, q, after, limit)
			for _, f := range page {
				if end := ctxcause.Of(ctx); end != nil {
					err = end
					break
				}
				if !yield(f.Effect, f.damage) {
					return
				}
				after = f.number
			}
			if err == nil && !more {
				return
			}
		}
		yield(ledger.Effect{}, fmt.Errorf("sqliteledger: effects: %w", l.db.Explain(ctx, err)))
	}
}

// list returns the next effects. It stops at the first effect that SQLite cannot read.
func list(
	ctx context.Context, st sqlitestore.Statements, q ledger.Query, after int64, limit int, brief bool,
) ([]finding, error) {
	texts := [2]string{listSQL, listBriefSQL}
	switch {
	case q.ID != "":
		texts = [2]string{listIDSQL, listIDBriefSQL}
	case q.RunID != "":
		texts = [2]string{listRunSQL, listRunBriefSQL}
	case q.AnsweredWithin > 0:
		texts = [2]string{listAnswersSQL, listAnswersBriefSQL}
	case q.Open:
		texts = [2]string{listOpenSQL, listOpenBriefSQL}
	case q.Session != "":
		texts = [2]string{listSessionSQL, listSessionBriefSQL}
	}
	stmt := st[texts[0]]
	if brief {
		stmt = st[texts[1]]
	}
	var answered int64
	if q.AnsweredWithin > 0 {
		answered = time.Now().Add(-q.AnsweredWithin).UnixMicro()
	}
	rows, err := stmt.QueryContext(ctx, after, q.Orchestrator, q.Session, q.RunID, q.ID, q.Open, limit, answered)
	return sqlitestore.Collect(rows, err, scan)
}
