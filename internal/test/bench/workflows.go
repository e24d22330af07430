package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// silent drops what is logged.
var silent = slog.New(slog.DiscardHandler)

// stepOutput is what a step returns, and what a bare commit writes: 160 bytes.
var stepOutput = strings.Repeat("user 42, somebody@example.com: created; ", 4)

var stepNames = [...]string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"}

// stepsEach is how many steps a run has.
const stepsEach = int64(len(stepNames))

func stepOnce(context.Context) (string, error) { return stepOutput, nil }

func tenSteps(r *flow.Run, _ string) (out string, err error) {
	for _, name := range stepNames {
		if out, err = flow.Step(r, name, stepOnce); err != nil {
			return "", err
		}
	}
	return out, nil
}

// engines are those of a suite.
type engines struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	failed  atomic.Pointer[error]
}

func newEngines(ctx context.Context) *engines {
	es := new(engines)
	es.ctx, es.cancel = context.WithCancel(ctx)
	return es
}

// run runs an engine until stop.
func (es *engines) run(s workflow.Store, o flow.Options, defs ...flow.Definition) *flow.Engine {
	o.Logger = silent
	e := flow.NewEngine(s, &o, defs...)
	es.running.Go(func() {
		if err := e.Run(es.ctx); err != nil {
			es.failed.Store(&err)
		}
	})
	return e
}

// stop ends the engines.
func (es *engines) stop() error {
	es.cancel()
	es.running.Wait()
	if err := es.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// tenSteps returns an operation that starts a run with a client of an engine's own process, and waits for its end.
func (es *engines) tenSteps(s workflow.Store, name string, o flow.Options) operation {
	w := flow.New(name, 1, tenSteps)
	c := workflow.NewClient(es.run(s, o, w).Front())
	return func(ctx context.Context, _ int) error {
		h, err := w.Start(ctx, c, "hello", nil)
		if err == nil {
			_, err = h.Result(ctx)
		}
		return err
	}
}

// bareSteps inserts single rows, each with a commit, into a table with as much as a journal needs.
func bareSteps(ctx context.Context, pool *pgxpool.Pool) (operation, error) {
	_, err := pool.Exec(ctx, `
		CREATE TABLE bare_steps (
			run text COLLATE "C", name text COLLATE "C", output jsonb, at timestamptz NOT NULL DEFAULT now(),
			PRIMARY KEY (run, name)
		)`)
	var n atomic.Int64
	document := `"` + stepOutput + `"`
	return func(ctx context.Context, worker int) error {
		_, err := pool.Exec(ctx, `INSERT INTO bare_steps (run, name, output) VALUES ($1, $2, $3)`,
			fmt.Sprint("run-", worker), fmt.Sprint("step-", n.Add(1)), document)
		return err
	}, err
}

// withWorkflows runs f with a durable PostgreSQL that has the tables of workflows.
func (b *bench) withWorkflows(
	ctx context.Context, o testenv.Options, f func(*pgxpool.Pool, *postgres.DB) error,
) error {
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		db, err := workflowsOf(ctx, pool)
		if err != nil {
			return err
		}
		return f(pool, db)
	})
}

// workflowsOf creates what is missing.
func workflowsOf(ctx context.Context, pool *pgxpool.Pool) (*postgres.DB, error) {
	db := postgres.New(pool, &postgres.Options{Logger: silent, Listen: func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	}})
	for _, s := range db.Schemas() {
		if _, err := pool.Exec(ctx, s.Schema()); err != nil {
			return nil, err
		}
	}
	return db, nil
}

// tidyWorkflows does between rounds the work of autovacuum.
func tidyWorkflows(pool *pgxpool.Pool) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, table := range []string{"bare_steps", "holdfast_workflow_runs", "holdfast_workflow_steps"} {
			if _, err := pool.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
		}
		return nil
	}
}

// workflowsPostgres measures which share of the disk's speed the steps of workflows keep, and how fast the same steps
// are with DBOS Transact.
func (b *bench) workflowsPostgres(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, db *postgres.DB) error {
		if err := b.describe(ctx, pool, ""); err != nil {
			return err
		}
		goals := map[int]goal{1: atLeast(0.85), 8: atLeast(0.65), mostWorkers: atLeast(0.9)}
		if err := b.compareSteps(ctx, "PostgreSQL", pool, db.Workflows(), goals, 1, 8); err != nil {
			return err
		}
		return b.compareDBOS(ctx, pool, db.Workflows())
	})
}

// workflowsSlowDisk measures the same on a disk where a commit takes longer than the work around it.
func (b *bench) workflowsSlowDisk(ctx context.Context) error {
	return b.withSlowDisk(ctx, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store, described string) error {
		db, err := workflowsOf(ctx, pool)
		if err := errors.Join(err, b.describe(ctx, pool, described)); err != nil {
			return err
		}
		goals := map[int]goal{1: atLeast(0.9), 8: atLeast(0.9), mostWorkers: atLeast(0.9)}
		return b.compareSteps(ctx, "PostgreSQL, slow disk", pool, db.Workflows(), goals, 8, mostWorkers)
	})
}

// compareSteps measures steps against bare commits, with the default of writers and with others.
func (b *bench) compareSteps(
	ctx context.Context, where string, pool *pgxpool.Pool, s workflow.Store, goals map[int]goal, writers ...int,
) (err error) {
	es := newEngines(ctx)
	defer func() { err = errors.Join(err, es.stop()) }()
	bare, err1 := bareSteps(ctx, pool)
	meter, err2 := clientAndServer(ctx, pool)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ours := es.tenSteps(s, "ten", flow.Options{})
	others := make([]operation, len(writers))
	for i, n := range writers {
		others[i] = es.tenSteps(s, fmt.Sprintf("ten-%d-writers", n), flow.Options{Writers: n})
	}
	for _, workers := range workerCounts {
		c := contest{
			what: where + ", steps", workers: workers, meter: meter, between: tidyWorkflows(pool),
			reference: subject{name: "bare commits", op: bare},
			subjects:  []subject{{name: "of runs of 10", op: ours, goal: goals[workers], each: stepsEach}},
		}
		efforts := []goal{working(0)}
		if workers > 1 && len(writers) > 0 {
			efforts[0] = working(1)
		}
		for i, op := range others {
			name := fmt.Sprintf("of runs of 10, Writers: %d", writers[i])
			c.subjects = append(c.subjects, subject{name: name, op: op, each: stepsEach})
			efforts = append(efforts, working(0))
		}
		if err := b.compete(ctx, c); err != nil {
			return err
		}
		b.also(efforts...)
	}
	return nil
}
