package sqliteledger

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
)

// readPage returns the next effects, and whether there may be more. If SQLite cannot read them all, readPage reads them
// one by one. Of an effect that cannot be read it returns what stands before the documents.
func readPage(
	ctx context.Context, st sqlitestore.Statements, q ledger.Query, after int64, limit int,
) (page []finding, more bool, err error) {
	page, err = list(ctx, st, q, after, limit, q.Brief)
	if !sqlitestore.Corrupt(err) {
		return page, len(page) == limit, err
	}
	listed, e := list(ctx, st, q, after, limit, true)
	if e != nil {
		return page, false, err
	}
	page = nil
	for _, f := range listed {
		found, err := list(ctx, st, q, f.number-1, 1, false)
		switch {
		case sqlitestore.Corrupt(err):
			f.damage = ledger.Damaged(f.ID, err)
			page = append(page, f)
		case err != nil:
			return page, false, err
		case len(found) > 0 && found[0].number == f.number: // otherwise it was pruned, or has changed since
			page = append(page, found...)
		}
	}
	return page, len(listed) == limit, nil
}
