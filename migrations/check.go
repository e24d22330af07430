package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

// ErrBehind is wrapped by an error of [Check] or [Up] if something is missing. The message says what, and what to do.
var ErrBehind = errors.New("the schema is behind")

// ErrNewer is wrapped by the error of [Check] if a later version of this package has migrated the database, and nothing
// is missing. A program may go on: see [Check].
var ErrNewer = errors.New("the schema is newer than this program")

// ErrEncoding refuses a database of PostgreSQL in which the stores cannot keep every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Check reports whether db has exactly what [Up] creates. It changes nothing. If a migration was not applied, or one of
// its tables, columns or indexes is missing, Check returns an error that names it and wraps [ErrBehind]. If nothing is
// missing, and the database has migrations that this version of the package does not know, the error wraps [ErrNewer].
// If the encoding of a PostgreSQL is not UTF8, Check and Up refuse it with [ErrEncoding].
//
// A schema that is newer by one release serves the stores of this version: the changelog would say otherwise. So a
// program that may be rolled back, or be restarted during a deploy, takes ErrNewer for a warning. Up, which returns nil
// there, does the same.
//
// If a migration was applied and its table or index is missing, it has been dropped since. The Schema method of its
// store creates such tables and indexes again.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	return Tables{Dialect: d}.Check(ctx, db)
}

// Check is the function Check for t.
func (t Tables) Check(ctx context.Context, db *sql.DB) error {
	p, all, err := t.load()
	if err != nil {
		return err
	}
	found, err := p.look(ctx, db)
	if err == nil {
		err = cmp.Or(found.behind(all), found.newer(all))
	}
	if err != nil {
		return p.wrap(ctx, db, err)
	}
	return nil
}

// behind returns an error that wraps ErrBehind if s lacks a migration of all, or what one of all has created.
func (s state) behind(all []migration) error {
	var missing, remedies, files []string
	for _, m := range all {
		if !s.has(m) {
			missing = append(missing, "migration "+m.name)
			remedies = append(remedies, "run migrations.Up")
		}
	}
	for _, m := range all {
		for _, o := range ddl.Objects(m.up) {
			lacks := s.without(o)
			missing = append(missing, lacks...)
			switch {
			case len(lacks) == 0 || !s.has(m):
			case strings.HasPrefix(lacks[0], "column "):
				files = append(files, m.name+".sql")
			case strings.HasPrefix(lacks[0], validIndex):
				remedies = append(remedies, "drop each invalid index and build it again")
			default:
				remedies = append(remedies, "for tables and indexes execute what Schema of the store returns")
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if len(files) > 0 {
		names := strings.Join(slices.Compact(files), " or ")
		remedies = append(remedies, "alter each table without a column by hand, to what the file "+names+" defines")
	}
	later := ""
	if n := s.later(all); n > 0 {
		later = fmt.Sprintf("; it has migration %d of a later version", n)
	}
	slices.Sort(remedies)
	return fmt.Errorf("%w: missing %s: %s%s", ErrBehind, strings.Join(missing, ", "),
		strings.Join(slices.Compact(remedies), "; "), later)
}

// newer returns an error that wraps ErrNewer if s has a migration that comes after all.
func (s state) newer(all []migration) error {
	if n := s.later(all); n > 0 {
		return fmt.Errorf("%w: it has migration %d, and the program knows %d", ErrNewer, n, all[len(all)-1].version)
	}
	return nil
}

// later returns the last migration of s if it comes after all; otherwise 0.
func (s state) later(all []migration) (last int64) {
	for _, v := range s.versions {
		last = max(last, v)
	}
	if len(all) == 0 || last <= all[len(all)-1].version {
		return 0
	}
	return last
}

// has reports whether m was applied.
func (s state) has(m migration) bool { return slices.Contains(s.versions, m.version) }

// A state is the part of a database that belongs to the stores.
type state struct {
	// names are as the catalog query returns them.
	names    []string
	versions []int64 // applied
}

func (p place) look(ctx context.Context, db *sql.DB) (s state, err error) {
	if err := p.suits(ctx, db); err != nil {
		return s, err
	}
	if s.names, err = query[string](ctx, db, p.catalog); err != nil {
		return s, err
	}
	if !slices.Contains(s.names, p.bare(version)) {
		return s, nil
	}
	if s.versions, err = query[int64](ctx, db, "SELECT version_id FROM "+p.version()); err != nil {
		return s, err
	}
	// Another process may have applied a migration after the first look at the names. It is among the versions now.
	s.names, err = query[string](ctx, db, p.catalog)
	return s, err
}

// suits refuses a database that no schema makes fit for the stores.
func (p place) suits(ctx context.Context, db *sql.DB) error {
	if p.encoding == "" {
		return nil
	}
	found, err := query[string](ctx, db, p.encoding)
	for _, e := range found {
		err = pgtext.Encoded(e)
	}
	return err
}

// PostgreSQL does not use an invalid index: a build of it goes on, or has failed.
const (
	invalid    = "invalid " // before its name in state.names
	validIndex = "a valid index "
)

// without names the parts of o that s lacks. It does not name the parts of a missing table.
func (s state) without(o ddl.Object) []string {
	switch {
	case (o.Kind == "INDEX" || o.Kind == "COLUMN") && !slices.Contains(s.names, o.Table):
		return nil
	case o.Kind == "COLUMN":
		o = ddl.Object{Name: o.Table, Columns: []string{o.Name}}
	case slices.Contains(s.names, invalid+o.Name):
		return []string{validIndex + o.Name}
	case !slices.Contains(s.names, o.Name):
		return []string{strings.ToLower(o.Kind) + " " + o.Name}
	}
	var columns []string
	for _, c := range o.Columns {
		if name := o.Name + "." + c; !slices.Contains(s.names, name) {
			columns = append(columns, "column "+name)
		}
	}
	return columns
}

// A queryer is a *sql.DB or a *sql.Tx.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query returns the values of a query of one column.
func query[T any](ctx context.Context, db queryer, text string) ([]T, error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []T
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}
