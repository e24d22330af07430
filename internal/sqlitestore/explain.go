package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Explain gives an error of the database the meaning that the contract has for it. No connection may be held.
func (d *DB) Explain(ctx context.Context, err error) error {
	known := func(verdict error) bool { return errors.Is(err, verdict) }
	if known(ErrDSN) || slices.ContainsFunc(d.layout.Verdicts, known) {
		return err
	}
	if ctx.Err() != nil {
		return ctxcause.Of(ctx)
	}
	if missing := d.missing(ctx); missing != "" {
		return fmt.Errorf("%w: %s is missing: run migrations.Up, or execute what Schema returns", d.layout.Missing, missing)
	}
	f := d.file.Load()
	if f == nil {
		f = fileOf(ctx, d.db)
	}
	if f != nil && err != nil {
		return fmt.Errorf("%s: %w", f.path, err) // it may be read-only, or its disk full
	}
	return err
}

// missing names a table or column that the store needs and does not find.
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
