package sqlitecheckpoint

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// numbersSQL finds the turns of a page by the index, without the rows.
const numbersSQL = `
		SELECT turn FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND turn <= ?3
		ORDER BY turn DESC
		LIMIT ?4`

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
