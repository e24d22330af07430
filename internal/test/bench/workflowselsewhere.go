package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// startedAtOnce is how many runs one call starts.
const startedAtOnce = 8

// workflowsElsewhere measures runs that another process starts, against runs that their engine's own process starts,
// and starts alone against those of River.
func (b *bench) workflowsElsewhere(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, here *postgres.DB) error {
		other, err := pgxpool.NewWithConfig(ctx, pool.Config())
		if err != nil {
			return err
		}
		defer other.Close()
		there, err := workflowsOf(ctx, other)
		if err != nil {
			return err
		}
		err = b.compareElsewhere(ctx, pool, here.Workflows(), there.Workflows())
		if err != nil {
			return err
		}
		return b.compareStarts(ctx, pool, there.Workflows())
	})
}

// compareElsewhere measures runs of engines with as many workers as there are callers.
func (b *bench) compareElsewhere(
	ctx context.Context, pool *pgxpool.Pool, here workflow.Store, there workflow.Front,
) (err error) {
	if _, err := bareSteps(ctx, pool); err != nil {
		return err
	}
	meter, err := clientAndServer(ctx, pool)
	if err != nil {
		return err
	}
	for _, workers := range workerCounts {
		es := newEngines(ctx)
		o := flow.Options{Workers: workers}
		own := es.tenSteps(here, fmt.Sprintf("here-%d", workers), o)
		one := newDistant(es, here, there, fmt.Sprintf("single-%d", workers), o)
		many := newDistant(es, here, there, fmt.Sprintf("batch-%d", workers), o)
		err := b.compete(ctx, contest{
			what: "PostgreSQL, steps", workers: workers, meter: meter, between: tidyWorkflows(pool),
			reference: subject{name: "of runs started here", op: own, each: stepsEach},
			subjects: []subject{{
				name: fmt.Sprintf("of runs started elsewhere, %d at once", startedAtOnce),
				op:   many.starts(startedAtOnce), goal: atLeast(0.6), each: startedAtOnce * stepsEach,
			}, {
				name: "of runs started elsewhere", op: one.starts(1), goal: atLeast(0.6), each: stepsEach,
			}},
		})
		if err == nil {
			b.also(working(0), working(0))
		}
		if err := errors.Join(err, es.stop()); err != nil {
			return err
		}
	}
	return nil
}

// A distant is a workflow whose runs say themselves when they are over, so that no caller has to ask.
type distant struct {
	there workflow.Front
	name  string
	over  chan struct{}
}

func newDistant(es *engines, here workflow.Store, there workflow.Front, name string, o flow.Options) distant {
	c := distant{there, name, make(chan struct{}, startedAtOnce*mostWorkers)}
	es.run(here, o, flow.New(name, 1, func(r *flow.Run, in string) (string, error) {
		defer func() { c.over <- struct{}{} }() // the write of its end is all that is left
		return tenSteps(r, in)
	}))
	return c
}

// starts returns an operation that starts n runs, and waits until as many are over.
func (c distant) starts(n int) operation {
	return func(ctx context.Context, _ int) error {
		runs := make([]workflow.NewRun, n)
		for i := range runs {
			runs[i] = workflow.NewRun{ID: workflow.NewID(), Workflow: c.name, Input: []byte(`"hello"`)}
		}
		if _, err := c.there.Start(ctx, runs); err != nil {
			return err
		}
		for range n {
			select {
			case <-c.over:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

// compareStarts measures starts of runs that no process has the code of.
func (b *bench) compareStarts(ctx context.Context, pool *pgxpool.Pool, front workflow.Front) error {
	inserts, err1 := riverInserts(ctx, pool)
	meter, err2 := clientAndServer(ctx, pool)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	client := workflow.NewClient(front)
	start := func(ctx context.Context, _ int) error {
		_, err := client.Start(ctx, "unknown", "hello", nil)
		return err
	}
	for _, workers := range workerCounts {
		g := atLeast(0.9)
		if workers == 1 {
			g = goal{}
		}
		err := b.compete(ctx, contest{
			what: "PostgreSQL, starts", workers: workers, meter: meter, between: tidyWorkflows(pool),
			reference: subject{name: "River 0.51.2, Insert", op: inserts},
			subjects:  []subject{{name: "Client.Start", op: start, goal: g}},
		})
		if err != nil {
			return err
		}
		b.also(working(0))
	}
	return nil
}
