package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"os"
)

// Admit returns why the store must not write in a transaction of the program, or nil. It needs no other connection,
// because the transaction may hold the only one. It reads, so the transaction must have written before: see Write.
func (d *DB) Admit(ctx context.Context, tx *sql.Tx) error {
	var path, journal string
	var synchronous int
	err := tx.QueryRowContext(ctx, `
		SELECT file, journal_mode, synchronous FROM pragma_database_list, pragma_journal_mode, pragma_synchronous
		WHERE name = 'main'`).Scan(&path, &journal, &synchronous)
	switch {
	case err != nil:
		return err
	case journal != "wal":
		return unfit(path, "journal_mode is "+journal)
	case synchronous != synchronousFull && synchronous != synchronousExtra:
		return unfit(path, fmt.Sprintf("synchronous is %d", synchronous))
	case !d.in(path):
		return fmt.Errorf("%w: the transaction is in file %s, and not in %s", ErrDSN, path, d.file.Load().path)
	}
	return d.There()
}

// in reports whether a path leads to the file of the store, or the store has not been used yet.
func (d *DB) in(path string) bool {
	f := d.file.Load()
	if f == nil || f.path == path {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(f.info, info)
}
