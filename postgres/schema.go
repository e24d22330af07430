package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/migrations"
)

// Up brings the schema up to date, and then checks it. Any number of processes may call it at once, also while others
// use the stores: package migrations says how. A schema that the prefix names must exist. If the schema is newer than
// the program, this is no error of Up.
func (db *DB) Up(ctx context.Context) error {
	err := db.migrate(func(conn *sql.DB) error { return db.tables().Up(ctx, conn) })
	if err != nil || !db.o.Functions {
		return err
	}
	missing, err := db.missing(ctx)
	if err == nil && len(missing) > 0 {
		err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
			// Of two processes that create a function at once, one would fail.
			const text = "SELECT pg_advisory_xact_lock(7813882414910662502);"
			_, err := tx.Conn().PgConn().Exec(ctx, text+db.checkpoints.Functions()+db.snapshots.Functions()).ReadAll()
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("postgres: creating functions: %w", err)
	}
	return nil
}

// Check says what Up would have to do, by an error that wraps migrations.ErrBehind, or that the schema is newer than
// the program, by migrations.ErrNewer. It changes nothing. A program that may be rolled back takes ErrNewer for a
// warning: see migrations.Check.
func (db *DB) Check(ctx context.Context) error {
	if db.o.Functions {
		missing, err := db.missing(ctx)
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		if len(missing) > 0 {
			return fmt.Errorf("postgres: %w: missing function %s: run Up", migrations.ErrBehind,
				strings.Join(missing, ", function "))
		}
	}
	return db.migrate(func(conn *sql.DB) error { return db.tables().Check(ctx, conn) })
}

// Schemas are for migrations.FromSchema: the tables in the application's own set of goose migrations.
func (db *DB) Schemas() []migrations.Schemer {
	return []migrations.Schemer{
		db.checkpoints, db.snapshots, db.ledger, db.turnLog, db.stream, db.inbox, db.locker, db.workflows,
		db.transcripts,
	}
}

func (db *DB) tables() migrations.Tables {
	return migrations.Tables{Dialect: migrations.Postgres, Prefix: db.o.Prefix}
}

// migrate calls f with the pool as goose wants it.
func (db *DB) migrate(f func(*sql.DB) error) error {
	conn := stdlib.OpenDBFromPool(db.pool)
	defer conn.Close() // the pool stays open
	return f(conn)
}

// missing returns the functions that are not there.
func (db *DB) missing(ctx context.Context) ([]string, error) {
	var all []string
	for _, names := range [][]string{db.checkpoints.FunctionNames(), db.snapshots.FunctionNames()} {
		all = append(all, names...)
	}
	rows, err := db.pool.Query(ctx, "SELECT f FROM unnest($1::text[]) AS f WHERE to_regproc(f) IS NULL", all)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
