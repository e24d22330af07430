package sqlitestore

import (
	"context"
	"database/sql"
)

// A Runner executes statements of a layout, by their texts.
type Runner struct {
	Query func(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	Exec  func(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// Alone returns what executes each statement by itself.
func Alone(st Statements) Runner {
	return Runner{
		func(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
			return st[text].QueryContext(ctx, args...)
		},
		func(ctx context.Context, text string, args ...any) (sql.Result, error) {
			return st[text].ExecContext(ctx, args...)
		},
	}
}

// Within returns what executes statements in a transaction of the store.
func Within(tx *sql.Tx, st Statements) Runner {
	return Runner{
		func(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
			return tx.StmtContext(ctx, st[text]).QueryContext(ctx, args...)
		},
		func(ctx context.Context, text string, args ...any) (sql.Result, error) {
			return tx.StmtContext(ctx, st[text]).ExecContext(ctx, args...)
		},
	}
}

// Guest returns what executes statements in a transaction of the program, whose *sql.DB may be another than that of the
// prepared statements.
func (d *DB) Guest(tx *sql.Tx) Runner {
	return Runner{
		func(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
			return tx.QueryContext(ctx, d.SQL(text), args...)
		},
		func(ctx context.Context, text string, args ...any) (sql.Result, error) {
			return tx.ExecContext(ctx, d.SQL(text), args...)
		},
	}
}

// One returns the row that a statement finds or writes, or nil.
func One[T any](
	ctx context.Context, do Runner, read func(*sql.Rows) (T, error), text string, args ...any,
) (*T, error) {
	rows, err := do.Query(ctx, text, args...)
	found, err := Collect(rows, err, read)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Wrote executes a statement, and reports whether it has written a row.
func (do Runner) Wrote(ctx context.Context, text string, args ...any) (bool, error) {
	n, err := Affected(do.Exec(ctx, text, args...))
	return n > 0, err
}
