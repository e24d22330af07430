package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

// ErrBehind is wrapped by the error of [Check] if something is missing.
var ErrBehind = errors.New("the schema is behind")

// ErrEncoding refuses a database of PostgreSQL in which the stores cannot keep every text. The message says what to do.
var ErrEncoding = pgstate.ErrEncoding

// Check reports whether db has everything that [Up] creates. It changes nothing. If a migration was not applied, or one
// of its tables, columns or indexes is missing, Check returns an error that names it and wraps [ErrBehind]. A schema
// that is newer than this version of the package is no error. If the encoding of a PostgreSQL is not UTF8, Check and Up
// refuse it with [ErrEncoding].
//
// If a migration was applied and its table or index is missing, it has been dropped since. The Schema method of its
// store creates such tables and indexes again.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	missing, err := missing(ctx, db, d)
	if err != nil {
		return d.wrap(ctx, db, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("migrations: %w: missing %s", ErrBehind, strings.Join(missing, ", "))
	}
	return nil
}

func missing(ctx context.Context, db *sql.DB, d Dialect) ([]string, error) {
	all, err := load(d)
	if err != nil {
		return nil, err
	}
	found, err := look(ctx, db, grammars[d])
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, m := range found.pending(all) {
		missing = append(missing, "migration "+m.name)
	}
	for _, m := range all {
		for _, o := range ddl.Objects(m.up) {
			missing = append(missing, found.without(o)...)
		}
	}
	return missing, nil
}

// A state is the part of a database that belongs to the stores.
type state struct {
	// names are as the catalog query returns them.
	names    []string
	versions []int64 // applied
}

func look(ctx context.Context, db *sql.DB, g *grammar) (s state, err error) {
	if err := g.suits(ctx, db); err != nil {
		return s, err
	}
	if s.names, err = query[string](ctx, db, g.catalog); err != nil {
		return s, err
	}
	if slices.Contains(s.names, versionTable) {
		s.versions, err = query[int64](ctx, db, "SELECT version_id FROM "+versionTable)
	}
	return s, err
}

// suits refuses a database that no schema makes fit for the stores.
func (g *grammar) suits(ctx context.Context, db *sql.DB) error {
	if g.encoding == "" {
		return nil
	}
	found, err := query[string](ctx, db, g.encoding)
	for _, e := range found {
		err = pgstate.Encoded(e)
	}
	return err
}

func (s state) pending(all []migration) []migration {
	return slices.DeleteFunc(slices.Clone(all), func(m migration) bool {
		return slices.Contains(s.versions, m.version)
	})
}

// without names the parts of o that s lacks. It does not name the parts of a missing table.
func (s state) without(o ddl.Object) []string {
	switch {
	case (o.Kind == "INDEX" || o.Kind == "COLUMN") && !slices.Contains(s.names, o.Table):
		return nil
	case o.Kind == "COLUMN":
		o = ddl.Object{Name: o.Table, Columns: []string{o.Name}}
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
