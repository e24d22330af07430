package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// workflowsJournal measures how long it takes to read the journal of a long run.
func (b *bench) workflowsJournal(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		var asked queries
		config := pool.Config()
		config.ConnConfig.Tracer = &asked
		traced, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer traced.Close()
		s := postgres.New(traced, nil).Workflows()
		run, err := longRun(ctx, s, b.journal)
		if err != nil {
			return err
		}
		read := func(ctx context.Context, _ int) error {
			n, err := count(s.Steps(ctx, run))
			if err == nil && n != b.journal {
				err = fmt.Errorf("the journal has %d steps, not %d", n, b.journal)
			}
			return err
		}
		err = b.compete(ctx, contest{
			what: "PostgreSQL", workers: 1,
			reference: subject{name: "SELECT of their outputs", op: outputs(pool, run)},
			subjects: []subject{{
				name: fmt.Sprintf("a journal of %d steps", b.journal), op: read, goal: below(20 * time.Millisecond),
			}},
		})
		asked.Store(0)
		err = errors.Join(err, read(ctx, 0))
		b.add(result{
			what: fmt.Sprintf("PostgreSQL: a journal of %d steps", b.journal), reference: "–", workers: 1,
			goal: keeping(1, "statements"), samples: []sample{{amount: float64(asked.Load())}},
		})
		return err
	})
}

// queries counts the statements of a pool.
type queries struct{ atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// longRun makes a run with so many steps.
func longRun(ctx context.Context, s workflow.Store, steps int) (string, error) {
	n := workflow.NewRun{
		ID: workflow.NewID(), Workflow: "long", Version: 1, Owner: "bench", Fence: lock.Fence{Epoch: 1, Nonce: "n"},
	}
	e := workflow.Entry{Run: n.ID, Fence: n.Fence, Mail: -1}
	for i := range steps {
		e.Steps = append(e.Steps, workflow.Step{
			Name: fmt.Sprint("step-", i), Index: i, Kind: workflow.KindStep, Outcome: workflow.Done, Attempts: 1,
			Output: []byte(`"` + stepOutput + `"`),
		})
	}
	_, err := s.Start(ctx, []workflow.NewRun{n})
	if err != nil {
		return "", err
	}
	verdicts, err := s.Write(ctx, []workflow.Entry{e})
	return n.ID, errors.Join(append(verdicts, err)...)
}

// outputs reads what a journal has, and nothing else.
func outputs(pool *pgxpool.Pool, run string) operation {
	return func(ctx context.Context, _ int) error {
		rows, err := pool.Query(ctx, `SELECT output FROM holdfast_workflow_steps WHERE run = $1`, run)
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	}
}

// workflowsWaiting measures what runs cost a process that wait.
func (b *bench) workflowsWaiting(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(_ *pgxpool.Pool, db *postgres.DB) (err error) {
		es := newEngines(ctx)
		defer func() { err = errors.Join(err, es.stop()) }()
		waits := flow.New("waits", 1, func(r *flow.Run, _ string) (string, error) {
			return flow.Wait[string](r, "go")
		})
		front := es.run(db.Workflows(), flow.Options{}, waits).Front()
		start := func(n int) error {
			return inParallel(n, func(int) error {
				_, err := waits.Start(ctx, workflow.NewClient(front), "hello", nil)
				return err
			})
		}
		// After that, what each connection keeps is there.
		if err := errors.Join(start(ahead), allWait(ctx, front, ahead)); err != nil {
			return err
		}
		heap0, goroutines0 := kept()
		if err := errors.Join(start(b.waiting), allWait(ctx, front, ahead+b.waiting)); err != nil {
			return err
		}
		heap, goroutines := kept()
		for _, row := range []struct {
			goal goal
			of   float64
		}{
			{keeping(1, "KiB of heap each"), (heap - heap0) / 1024},
			{keeping(0.01, "goroutines each"), goroutines - goroutines0},
		} {
			b.add(result{
				what: fmt.Sprintf("PostgreSQL, %d waiting runs", b.waiting), reference: "–", workers: 1, goal: row.goal,
				samples: []sample{{amount: max(row.of, 0) / float64(b.waiting)}},
			})
		}
		return nil
	})
}

// ahead is how many runs wait before it is measured.
const ahead = 50

// kept returns how many bytes of heap are in use, and how many goroutines there are.
func kept() (heap, goroutines float64) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(runtime.NumGoroutine())
}

// workflowsFinished measures a claim and a list beside many finished runs, against the same beside none.
func (b *bench) workflowsFinished(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{"shared_buffers": b.buffers, "max_wal_size": "4GB"}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		few, many := crowd{pool, "few_", b.due}, crowd{pool, "many_", b.due}
		if err := errors.Join(few.fill(ctx, 0), many.fill(ctx, b.many)); err != nil {
			return err
		}
		for _, c := range []struct {
			what string
			op   func(crowd) operation
		}{
			{"claim of one", crowd.claim},
			{"list of 50", crowd.list},
			{"list of 50 that run", crowd.listRunning},
		} {
			err := b.compete(ctx, contest{
				what: "PostgreSQL, workflows, " + c.what, workers: 1,
				reference: subject{name: "beside none", op: c.op(few)},
				subjects: []subject{{
					name: fmt.Sprintf("beside %d finished runs", b.many), op: c.op(many), goal: atMost(1.2),
				}},
				between: func(ctx context.Context) error { return errors.Join(few.renew(ctx), many.renew(ctx)) },
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// kinds is how many workflows a crowd has.
const kinds = 10

// A crowd is a store with so many runs that are due.
type crowd struct {
	pool   *pgxpool.Pool
	prefix string
	due    int
}

func (c crowd) store() workflow.Store {
	return postgres.New(c.pool, &postgres.Options{Prefix: c.prefix}).Workflows()
}

// fill writes finished runs as the store would have written them. The statements know the store's tables, which are
// documented.
func (c crowd) fill(ctx context.Context, finished int) error {
	for _, s := range postgres.New(c.pool, &postgres.Options{Prefix: c.prefix}).Schemas() {
		if _, err := c.pool.Exec(ctx, s.Schema()); err != nil {
			return err
		}
	}
	_, err := c.pool.Exec(ctx, `
		INSERT INTO `+c.prefix+`workflow_runs
			(id, workflow, version, status, epoch, nonce, since, retention, started, completed, input, output)
		SELECT md5(i::text), 'refund-' || i % 10, 1, 'completed', 1, 'n', at, 30, at, at + interval '1 second',
			'{"order": 7}', '"done"'
		FROM generate_series(1, $1::integer) AS i, LATERAL (SELECT now() - i * interval '1 second') AS t (at)`, finished)
	if err == nil {
		_, err = c.pool.Exec(ctx, "VACUUM (ANALYZE) "+c.prefix+"workflow_runs")
	}
	return err
}

// renew makes runs due, and removes those of before.
func (c crowd) renew(ctx context.Context) error {
	for _, sql := range []string{
		"DELETE FROM " + c.prefix + "workflow_runs WHERE status = 'running'",
		"VACUUM (ANALYZE) " + c.prefix + "workflow_runs",
		fmt.Sprintf(`
			INSERT INTO %sworkflow_runs (id, workflow, version, since, due, retention, started, input)
			SELECT md5(random()::text), 'refund-' || i %% 10, 1, now(), now(), 30, now(), '{"order": 7}'
			FROM generate_series(1, %d) AS i`, c.prefix, c.due),
	} {
		if _, err := c.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// claim claims one run after the other.
func (c crowd) claim() operation {
	s := c.store()
	var all []workflow.Definition
	for i := range kinds {
		all = append(all, workflow.Definition{Workflow: fmt.Sprint("refund-", i), Version: 1})
	}
	return func(ctx context.Context, _ int) error {
		claimed, _, err := s.Claim(ctx, workflow.ClaimRequest{
			Process: "bench", Nonce: rand.Text(), Definitions: all, Limit: 1,
		})
		if err == nil && len(claimed) != 1 {
			err = fmt.Errorf("%d runs claimed", len(claimed))
		}
		return err
	}
}

func (c crowd) list() operation { return c.listOf(workflow.Query{Limit: 50}) }

func (c crowd) listRunning() operation {
	return c.listOf(workflow.Query{Workflow: "refund-3", Status: workflow.Running, Limit: 50})
}

func (c crowd) listOf(q workflow.Query) operation {
	s := c.store()
	return func(ctx context.Context, _ int) error {
		n, err := count(s.Runs(ctx, q))
		if err == nil && n != q.Limit {
			err = fmt.Errorf("%d runs listed, not %d", n, q.Limit)
		}
		return err
	}
}
