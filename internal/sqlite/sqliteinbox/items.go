package sqliteinbox

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// INDEXED BY is needed: an analyzed SQLite may prefer the primary key.
const (
	listSQL      = columns + `data` + fromSession
	listBriefSQL = columns + `NULL` + fromSession

	listAllSQL      = columns + `data` + fromAll
	listAllBriefSQL = columns + `NULL` + fromAll

	aloneSQL = columns + `data
		FROM {prefix}inbox WHERE orchestrator = ?1 AND kind = ?2 AND session = ?3 AND id = ?4`

	columns = `SELECT session, at, id, posted_by, shown, `

	from = `
		FROM {prefix}inbox INDEXED BY {prefix}inbox_order
		WHERE orchestrator = ?1 AND kind = ?2 AND `

	fromSession = from + `session = ?3 AND (at, id) > (?4, ?5)
		ORDER BY at, id LIMIT ?6`
	fromAll = from + `(session, at, id) > (?3, ?4, ?5)
		ORDER BY session, at, id LIMIT ?6`
)

// Pages grow. The first items should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 16, 64

// Items reads pages of 16 and then 64 items.
func (s *Store) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		st, err := s.db.Start(ctx, inbox.ValidateItems(k, kind))
		if err == nil {
			err = items(ctx, st, k, kind, yield)
		}
		if err != nil {
			yield(inbox.Item{}, fmt.Errorf("sqliteinbox: items of %q: %w", k.Session, s.db.Explain(ctx, err)))
		}
	}
}

// items yields what Items yields. It returns nil if yield asks it to stop.
func items(
	ctx context.Context, st sqlitestore.Statements, k inbox.Key, kind inbox.Kind, yield func(inbox.Item, error) bool,
) error {
	after := place{k.Session, math.MinInt64, ""}
	for size := firstPage; ; size = mostPage {
		page, more, err := readPage(ctx, st, k, kind, after, size)
		for _, f := range page {
			if err := ctxcause.Of(ctx); err != nil {
				return err
			}
			if !yield(f.Item, f.damage) {
				return nil
			}
			after = f.place()
		}
		if err != nil || !more {
			return err
		}
	}
}

// A place is where a page begins: after this session, this time and this id.
type place struct {
	session string
	at      int64
	id      string
}

// list returns the next items. It stops at the first item that SQLite cannot read.
func list(
	ctx context.Context, st sqlitestore.Statements, k inbox.Key, kind inbox.Kind, after place, limit int, brief bool,
) ([]finding, error) {
	texts := [2]string{listSQL, listBriefSQL}
	if k.Session == "" {
		texts = [2]string{listAllSQL, listAllBriefSQL}
	}
	stmt := st[texts[0]]
	if brief {
		stmt = st[texts[1]]
	}
	rows, err := stmt.QueryContext(ctx, k.Orchestrator, string(kind), after.session, after.at, after.id, limit)
	return sqlitestore.Collect(rows, err, func(rows *sql.Rows) (finding, error) {
		return scan(rows, k.Orchestrator, kind)
	})
}
