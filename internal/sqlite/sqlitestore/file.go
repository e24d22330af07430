package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/internal/sqlitefile"
	"github.com/holdfast-go/holdfast/store"
)

// A file is the database file that a store has found fit. If the file is removed, SQLite goes on with the removed file
// and makes an empty one for a new connection. Therefore the store has to check.
type file struct {
	path string
	info fs.FileInfo
}

// fileOf returns the file of a database. If the store cannot see a file, fileOf returns nil.
func fileOf(ctx context.Context, db *sql.DB) *file {
	path := sqlitefile.Opened(ctx, db)
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return &file{path, info}
}

// path returns the path of the database, which need not exist. If the database is in no file, path returns "".
func (d *DB) path(ctx context.Context) string {
	if f := d.file.Load(); f != nil {
		return f.path
	}
	return sqlitefile.Path(ctx, d.db)
}

// There returns an error unless the file is still the same one. If it is the same, the next process finds the earlier
// writes in it.
func (d *DB) There() error {
	f := d.file.Load()
	if f == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: file %s was removed: put it back, or restart the process", store.ErrDamaged, f.path)
	case err != nil:
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	case !os.SameFile(f.info, now):
		return fmt.Errorf("%w: file %s was replaced by another: restart the process", store.ErrDamaged, f.path)
	}
	return nil
}
