package pgstate

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Querier is a *DB, or a transaction of the caller.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Row sends a statement once, and returns its only row. It returns pgx.ErrNoRows if there is no row.
func Row[T any](ctx context.Context, q Querier, scan pgx.RowToFunc[T], sql string, args ...any) (t T, err error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return t, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

// One is Row by [DB.Answered].
func One[T any](ctx context.Context, d *DB, scan pgx.RowToFunc[T], sql string, args ...any) (t T, err error) {
	err = d.Answered(ctx, func() error {
		t, err = Row(ctx, d, scan, sql, args...)
		return err
	})
	return t, err
}

// Collect returns all rows, so that no connection is held when they are yielded. most is how many there may be; 0 if
// this is not known.
func Collect[T any](
	ctx context.Context, d *DB, scan pgx.RowToFunc[T], most int, sql string, args ...any,
) (all []T, err error) {
	err = d.Answered(ctx, func() error {
		rows, err := d.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		all, err = pgx.AppendRows(make([]T, 0, most), rows, scan)
		return err
	})
	return all, err
}

// Touch returns how many rows a statement has touched.
func (d *DB) Touch(ctx context.Context, sql string, args ...any) (touched int64, err error) {
	err = d.Answered(ctx, func() error {
		tag, err := d.Exec(ctx, sql, args...)
		touched = tag.RowsAffected()
		return err
	})
	return touched, err
}

// Pipe sends the statements that queue adds, in one transaction. If it is repeated, so is queue.
func (d *DB) Pipe(ctx context.Context, queue func(*pgx.Batch)) error {
	return d.Answered(ctx, func() error {
		var b pgx.Batch
		queue(&b)
		return d.SendBatch(ctx, &b).Close()
	})
}

// Fill replaces the placeholders in statements.
func Fill(names *strings.Replacer, statements ...*string) {
	for _, s := range statements {
		*s = names.Replace(*s)
	}
}
