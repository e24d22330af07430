package main

import (
	"context"
	"errors"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// compareDBOS measures the same steps with DBOS Transact, on a pool of its own.
func (b *bench) compareDBOS(ctx context.Context, pool *pgxpool.Pool, s workflow.Store) (err error) {
	es := newEngines(ctx)
	defer func() { err = errors.Join(err, es.stop()) }()
	meter, err1 := clientAndServer(ctx, pool)
	theirs, stop, err2 := dbosSteps(ctx, pool)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	defer stop()
	ours := es.tenSteps(s, "ten-beside-dbos", flow.Options{})
	goals := map[int]goal{1: atLeast(3), 8: atLeast(3), mostWorkers: atLeast(4.5)}
	for _, workers := range workerCounts {
		err := b.compete(ctx, contest{
			what: "PostgreSQL, steps", workers: workers, meter: meter, between: tidyWorkflows(pool),
			reference: subject{name: "DBOS Transact 1.8.0", op: theirs, each: stepsEach},
			subjects:  []subject{{name: "of runs of 10", op: ours, goal: goals[workers], each: stepsEach}},
		})
		if err != nil {
			return err
		}
		effort := working(0)
		if workers > 1 {
			effort = working(0.2)
		}
		b.also(effort)
	}
	return nil
}

// dbosSteps returns an operation that runs ten steps with DBOS Transact.
func dbosSteps(ctx context.Context, pool *pgxpool.Pool) (op operation, stop func(), err error) {
	own, err := pgxpool.NewWithConfig(ctx, pool.Config())
	if err != nil {
		return nil, nil, err
	}
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SystemDBPool: own, Logger: silent})
	if err != nil {
		own.Close()
		return nil, nil, err
	}
	ten := func(c dbos.Context, _ string) (out string, err error) {
		for _, name := range stepNames {
			if out, err = dbos.RunAsStep(c, stepOnce, dbos.WithStepName(name)); err != nil {
				return "", err
			}
		}
		return out, nil
	}
	dbos.RegisterWorkflow(d, ten)
	err = dbos.Launch(d)
	stop = func() {
		_ = dbos.Shutdown(d, time.Second)
		own.Close()
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return func(context.Context, int) error {
		h, err := dbos.RunWorkflow(d, ten, "hello")
		if err == nil {
			_, err = h.GetResult()
		}
		return err
	}, stop, nil
}

// A riverJob has as much as the input of a run.
type riverJob struct{ Text string }

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return "job" }

// riverInserts returns an operation that inserts a job into River.
func riverInserts(ctx context.Context, pool *pgxpool.Pool) (operation, error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silent})
	return func(ctx context.Context, _ int) error {
		_, err := client.Insert(ctx, riverJob{"hello"}, nil)
		return err
	}, err
}
