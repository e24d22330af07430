package sqlitesnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A finding is a run, and its damage if no store wrote it.
type finding struct {
	snapshot.Run
	damage error
}

// readPage returns the next runs, and whether there may be more. If SQLite cannot read them all, readPage reads them
// one by one. Of a run that cannot be read it returns a brief finding.
func readPage(
	ctx context.Context, st sqlitestore.Statements, q snapshot.Query, after string, limit int,
) (page []finding, more bool, err error) {
	page, err = list(ctx, st, q, after, limit)
	if !sqlitestore.Corrupt(err) || q.Brief {
		return page, len(page) == limit, err
	}
	brief := q
	brief.Brief = true
	listed, e := list(ctx, st, brief, after, limit)
	if e != nil {
		return page, false, err
	}
	page = nil
	for _, f := range listed {
		q.Session = f.Session
		found, err := session(ctx, st[listedSQL], q, "")
		switch {
		case sqlitestore.Corrupt(err):
			f.damage = snapshot.Damaged(f.Key, err)
			page = append(page, f)
		case err != nil:
			return page, false, err
		default:
			page = append(page, found...) // empty if the run was deleted since
		}
	}
	return page, len(listed) == limit, nil
}
