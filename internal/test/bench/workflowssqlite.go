package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// withSQLiteWorkflows runs f with a fresh file, opened as a program opens it, that has the tables of workflows.
func (b *bench) withSQLiteWorkflows(
	ctx context.Context, name string, f func(*sql.DB, *sqlite.DB) error,
) (err error) {
	file, err := sqlite.Open(filepath.Join(b.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	db := sqlite.New(file, nil)
	for _, s := range db.Schemas() {
		if _, err := file.ExecContext(ctx, s.Schema()); err != nil {
			return err
		}
	}
	return f(file, db)
}

// workflowsSQLite measures steps against bare commits in a file of their own.
func (b *bench) workflowsSQLite(ctx context.Context) error {
	return b.withSQLiteWorkflows(ctx, "workflows.db", func(_ *sql.DB, db *sqlite.DB) error {
		return b.withSQLiteWorkflows(ctx, "bare.db", func(theirs *sql.DB, _ *sqlite.DB) (err error) {
			bare, err := bareSQLiteSteps(ctx, theirs)
			if err != nil {
				return err
			}
			es := newEngines(ctx)
			defer func() { err = errors.Join(err, es.stop()) }()
			ours := es.tenSteps(db.Workflows(), "ten", flow.Options{})
			for _, workers := range []int{1, 8} {
				err := b.compete(ctx, contest{
					what: "SQLite, steps", workers: workers, reference: subject{name: "bare commits", op: bare},
					subjects: []subject{{name: "of runs of 10", op: ours, goal: atLeast(1.2), each: stepsEach}},
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// bareSQLiteSteps inserts single rows, each with a commit, with a statement that ends with the database.
func bareSQLiteSteps(ctx context.Context, db *sql.DB) (operation, error) {
	_, err := db.ExecContext(ctx, `
		CREATE TABLE bare_steps (run TEXT, name TEXT, output TEXT, at INTEGER, PRIMARY KEY (run, name)) WITHOUT ROWID`)
	if err != nil {
		return nil, err
	}
	prepared, err := db.PrepareContext(ctx, `INSERT INTO bare_steps VALUES (?, ?, ?, unixepoch())`)
	var n atomic.Int64
	document := `"` + stepOutput + `"`
	return func(ctx context.Context, worker int) error {
		_, err := prepared.ExecContext(ctx, fmt.Sprint("run-", worker), fmt.Sprint("step-", n.Add(1)), document)
		return err
	}, err
}
