package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlitefile"
)

// Explain gives an error of the database its meaning in the contract. The caller must not hold a connection.
func (d *DB) Explain(ctx context.Context, err error) error {
	known := func(verdict error) bool { return errors.Is(err, verdict) }
	if known(ErrDSN) || slices.ContainsFunc(d.layout.Verdicts, known) {
		return err
	}
	if ctx.Err() != nil {
		return ctxcause.Of(ctx)
	}
	if missing := d.missing(ctx); missing != "" {
		return fmt.Errorf("%w: %s is missing: run migrations.Up, or execute what Schema returns", d.layout.Missing,
			missing)
	}
	return d.located(ctx, err)
}

// located adds the path of the file to an error, and the contract's error for a file that SQLite may not write.
func (d *DB) located(ctx context.Context, err error) error {
	path := d.path(ctx)
	if path != "" && sqlitefile.Unwritable(err) {
		return fmt.Errorf("%w: %w", d.layout.Refused, sqlitefile.Name(path, err))
	}
	return sqlitefile.Name(path, err)
}

// Corrupt reports whether err says that SQLite cannot read its stored data, perhaps of one row among many. If the
// errors of a driver have no Code, Corrupt returns false.
func Corrupt(err error) bool {
	const corrupt = 11
	e, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	return ok && e.Code()&0xff == corrupt
}

// missing names a table or column that the store needs and that the database does not have.
func (d *DB) missing(ctx context.Context) string {
	for _, t := range d.layout.Tables {
		table := d.SQL(t.Name)
		rows, err := d.db.QueryContext(ctx, "SELECT name FROM pragma_table_info(?1)", table)
		found, err := Collect(rows, err, ScanText)
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
	}
	return ""
}
