package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A file is the one that a store has found fit. SQLite goes on with a file that was removed, and makes an empty one for
// a new connection, so the store has to look.
type file struct {
	path string
	info fs.FileInfo
}

// fileOf returns the file of a database; nil if it has none that can be seen.
func fileOf(ctx context.Context, db *sql.DB) *file {
	var path string
	err := db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	if err != nil || path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return &file{path, info}
}

// There returns an error unless the file is still the one that the store has found. What was written before is then where
// the next process finds it.
func (d *DB) There() error {
	f := d.file.Load()
	if f == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: file %s was removed: put it back, or restart the process", d.layout.Damaged, f.path)
	case err != nil:
		return fmt.Errorf("%w: %w", d.layout.Damaged, err)
	case !os.SameFile(f.info, now):
		return fmt.Errorf("%w: file %s was replaced by another: restart the process", d.layout.Damaged, f.path)
	}
	return nil
}
