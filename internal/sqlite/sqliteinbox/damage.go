package sqliteinbox

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// readPage returns the next items, and whether there may be more. If SQLite cannot read them all, readPage reads them
// one by one. Of an item whose data cannot be read it returns the rest.
func readPage(
	ctx context.Context, st sqlitestore.Statements, k inbox.Key, kind inbox.Kind, after place, limit int,
) (page []finding, more bool, err error) {
	page, err = list(ctx, st, k, kind, after, limit, false)
	if !sqlitestore.Corrupt(err) {
		return page, len(page) == limit, err
	}
	page = page[:0]
	brief, err := list(ctx, st, k, kind, after, limit, true)
	for _, f := range brief {
		alone, e := readAlone(ctx, st, f.Item)
		switch {
		case sqlitestore.Corrupt(e):
			f.damage = inbox.Damaged(f.Item, e)
			page = append(page, f)
		case e != nil:
			return page, false, e
		default: // it may have been removed since
			page = append(page, alone...)
		}
	}
	return page, len(brief) == limit, err
}

// readAlone returns an item, or nothing.
func readAlone(ctx context.Context, st sqlitestore.Statements, it inbox.Item) ([]finding, error) {
	rows, err := st[aloneSQL].QueryContext(ctx, it.Orchestrator, string(it.Kind), it.Session, it.ID)
	return sqlitestore.Collect(rows, err, func(rows *sql.Rows) (finding, error) {
		return scan(rows, it.Orchestrator, it.Kind)
	})
}
