package sqliteturnlog

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

// readable reads the entries of a run one by one. Of an entry whose state SQLite cannot read, it returns the rest.
func readable(ctx context.Context, st sqlitestore.Statements, run string) ([]finding, error) {
	rows, err := st[restoreBriefSQL].QueryContext(ctx, run)
	found, err := sqlitestore.Collect(rows, err, scanEntry)
	if err != nil {
		return found, err
	}
	kept := found[:0]
	for _, f := range found {
		states, err := knownState(ctx, st, f.Entry)
		switch {
		case sqlitestore.Corrupt(err):
			f.damage = turnlog.Damaged(run, err)
		case err != nil:
			return kept, err
		case len(states) == 0: // it was pruned since
			continue
		default:
			f.State = states[0]
			f.damage = f.Intact()
		}
		kept = append(kept, f)
	}
	return kept, nil
}

// readPage returns the next turns. If SQLite cannot read them all, readPage reads them one by one. Of a turn whose
// states cannot be read it returns the rest.
func readPage(
	ctx context.Context, st sqlitestore.Statements, q turnlog.Query, after place, limit int,
) ([]line, error) {
	page, err := list(ctx, st, q, after, limit, false)
	if !sqlitestore.Corrupt(err) {
		return page, err
	}
	page, err = list(ctx, st, q, after, limit, true)
	for i, t := range page {
		alone, e := list(ctx, st, q, after, 1, false)
		switch {
		case sqlitestore.Corrupt(e):
			page[i].damage = turnlog.Damaged(t.First.Run, e)
		case e != nil:
			return page[:i], e
		case len(alone) == 1 && alone[0].First.Run == t.First.Run: // otherwise it was pruned, or has settled since
			page[i] = alone[0]
		}
		after = place{t.begins, t.First.Run}
	}
	return page, err
}
