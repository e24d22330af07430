// Package sqlitefile finds the file of an SQLite database, for errors that have to name it.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
)

// Path asks the database for its path. If the database cannot be opened, Path reads the data source name. If the
// database is in no file, Path returns "".
func Path(ctx context.Context, db *sql.DB) string {
	if path := Opened(ctx, db); path != "" {
		return path
	}
	path, _, _ := strings.Cut(dsn(db), "?")
	uri, is := strings.CutPrefix(path, "file:")
	if name, err := url.PathUnescape(uri); is && err == nil {
		return name
	}
	return path
}

// Opened returns the path that SQLite has opened; "" if it has opened no file. db is a *sql.DB or a *sql.Conn.
func Opened(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (path string) {
	err := db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	if err != nil {
		return ""
	}
	return path
}

// dsn returns the data source name of db. If a later package database/sql keeps the name elsewhere, dsn returns "". The
// error of a connection that cannot be opened does not name the file.
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

// Name adds the path of the file to an error of a database. If SQLite may not write a file, Name says which file, and
// why.
func Name(path string, err error) error {
	if path == "" || err == nil {
		return err
	}
	if Unwritable(err) {
		for _, p := range []string{filepath.Dir(path), path, path + "-wal", path + "-shm"} {
			if why := writable(p); why != nil && (p == filepath.Dir(path) || !errors.Is(why, fs.ErrNotExist)) {
				return fmt.Errorf("%s cannot be written: %w: %s: %w", p, why, path, err)
			}
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// The codes of SQLite for a database that another connection has locked, for a file that is read-only, and for a file
// that it cannot open. A database in WAL mode creates files beside the database.
const locked, readOnly, cannotOpen = 5, 8, 14

// Unwritable reports whether err says that SQLite wrote nothing because it must not write.
func Unwritable(err error) bool { return code(err) == readOnly || code(err) == cannotOpen }

// Busy reports whether err says that another connection has locked the database. The busy timeout prevents most of
// these errors. But if several processes open a new file at once, turning on its write-ahead log fails without a wait.
func Busy(err error) bool { return code(err) == locked }

// code returns the code of an error as modernc.org/sqlite tells it; 0 if it tells none.
func code(err error) int {
	e, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	if !ok {
		return 0
	}
	return e.Code() & 0xff
}
