package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlitefile"
	"github.com/holdfast-go/holdfast/store"
)

// A queryer is a *sql.DB or a *sql.Tx.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Explain gives an error of the database its meaning in the contract. The caller must not hold a connection.
func (d *DB) Explain(ctx context.Context, err error) error {
	return d.explain(ctx, d.db, err, d.path)
}

// ExplainIn is Explain of an error in a transaction of the program. It needs no other connection.
func (d *DB) ExplainIn(ctx context.Context, tx *sql.Tx, err error) error {
	return d.explain(ctx, tx, err, func(ctx context.Context) string { return sqlitefile.Opened(ctx, tx) })
}

func (d *DB) explain(ctx context.Context, q queryer, err error, path func(context.Context) string) error {
	if errors.Is(err, ErrDSN) || store.IsVerdict(err) {
		return err
	}
	if ctx.Err() != nil {
		return ctxcause.Of(ctx)
	}
	if missing := d.missing(ctx, q); missing != "" {
		return fmt.Errorf("%w: %s is missing: call Up of the database", store.ErrSchema, missing)
	}
	return located(path(ctx), err)
}

// located adds the path of the file to an error, and ErrRefused if SQLite may not write the file.
func located(path string, err error) error {
	if path != "" && sqlitefile.Unwritable(err) {
		return fmt.Errorf("%w: %w", store.ErrRefused, sqlitefile.Name(path, err))
	}
	return sqlitefile.Name(path, err)
}

// Corrupt reports whether err says that SQLite cannot read its stored data, perhaps of one row among many. If the
// errors of a driver have no Code, Corrupt returns false.
func Corrupt(err error) bool { return is(err, 11) }

// Constraint reports whether err says that a constraint or a trigger refuses a row. If the errors of a driver have no
// Code, Constraint returns false.
func Constraint(err error) bool { return is(err, 19) }

// Busy reports whether err says that a statement wrote nothing because another connection writes, or has written since
// the transaction read. If the errors of a driver have no Code, Busy returns false.
func Busy(err error) bool { return is(err, 5) }

// is reports whether err has a code of SQLite.
func is(err error, code int) bool {
	e, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	return ok && e.Code()&0xff == code
}

// missing names a table, a column or an index that the store needs and that the database does not have.
func (d *DB) missing(ctx context.Context, q queryer) string {
	list := func(pragma, table string) ([]string, error) {
		rows, err := q.QueryContext(ctx, "SELECT name FROM "+pragma+"(?1)", table)
		return Collect(rows, err, ScanText)
	}
	for _, t := range d.layout.Tables {
		table := d.SQL(t.Name)
		found, err := list("pragma_table_info", table)
		switch {
		case err != nil:
			return ""
		case len(found) == 0:
			return "table " + table
		}
		for _, column := range strings.Fields(t.Columns) {
			if !slices.Contains(found, column) {
				return fmt.Sprintf("column %s of table %s", column, table)
			}
		}
		indexes, err := list("pragma_index_list", table)
		for _, index := range strings.Fields(d.SQL(t.Indexes)) {
			if err == nil && !slices.Contains(indexes, index) {
				return "index " + index
			}
		}
	}
	return ""
}
