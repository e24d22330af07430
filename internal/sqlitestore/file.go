package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"reflect"
	"strings"
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

// path returns where the database is, or is to be; "" if that is in no file.
func (d *DB) path(ctx context.Context) string {
	f := d.file.Load()
	if f == nil {
		f = fileOf(ctx, d.db)
	}
	if f != nil {
		return f.path
	}
	path, _, _ := strings.Cut(dsn(d.db), "?")
	uri, is := strings.CutPrefix(path, "file:")
	if name, err := url.PathUnescape(uri); is && err == nil {
		return name
	}
	return path
}

// dsn returns the data source name of db, or "" if package database/sql keeps it elsewhere than it does today. A
// connection that cannot be opened tells nobody which file it was to open.
func dsn(db *sql.DB) string {
	connector := reflect.ValueOf(db).Elem().FieldByName("connector")
	if !connector.IsValid() || connector.Kind() != reflect.Interface || connector.Elem().Kind() != reflect.Struct {
		return ""
	}
	if name := connector.Elem().FieldByName("dsn"); name.IsValid() && name.Kind() == reflect.String {
		return name.String()
	}
	return ""
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
