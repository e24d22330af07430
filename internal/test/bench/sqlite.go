package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
)

// withSQLite runs f with a fresh database that is durable at every commit.
func (b *bench) withSQLite(ctx context.Context, name string, f func(*sql.DB) error) (err error) {
	dsn := "file:" + filepath.Join(b.dir, name) +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(db)
}

// withSQLiteStore runs f with a store on its own database.
func (b *bench) withSQLiteStore(ctx context.Context, name string, f func(*sqlitecheckpoint.Store) error) error {
	return b.withSQLite(ctx, name, func(db *sql.DB) error {
		var version string
		if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
			return err
		}
		b.fact("SQLite %s (modernc): journal_mode WAL, synchronous FULL", version)
		store := sqlitecheckpoint.New(db, nil)
		if _, err := db.ExecContext(ctx, store.Schema()); err != nil {
			return err
		}
		return f(store)
	})
}

func (b *bench) sqliteTurns(ctx context.Context) error {
	return b.withSQLiteStore(ctx, "ours.db", func(store *sqlitecheckpoint.Store) error {
		return b.withSQLite(ctx, "theirs.db", func(db *sql.DB) error {
			states := prose(64)
			ours := player{store, states, b.keep, ""}
			theirs, err := newSQLiteRecipe(ctx, db, states, b.keep)
			if err != nil {
				return err
			}
			if err := errors.Join(
				ours.fillAll(ctx, b.sessions, b.keep+5), theirs.fillAll(ctx, b.sessions, b.keep+5),
			); err != nil {
				return err
			}
			rota := newRota(b.sessions, 1)
			return b.compete(ctx, contest{
				what: "SQLite", workers: 1, reference: subject{name: "load, insert, prune", op: rota.on(theirs.play)},
				subjects: []subject{{name: "Claim, Append", op: rota.on(ours.play), goal: atLeast(0.6)}},
			})
		})
	})
}

func (b *bench) sqliteHistory(ctx context.Context) error {
	return b.withSQLiteStore(ctx, "history.db", func(store *sqlitecheckpoint.Store) error {
		return b.history(ctx, "SQLite", store)
	})
}
