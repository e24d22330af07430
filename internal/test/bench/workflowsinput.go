package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// workflowsInput measures how long it takes over HTTP to find the run of a customer by its input, with the index that
// docs/workflows.md names.
func (b *bench) workflowsInput(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{"shared_buffers": b.buffers, "max_wal_size": "4GB"}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		c := crowd{pool, "input_", b.due}
		if err := c.fill(ctx, 0); err != nil { // the tables
			return err
		}
		if err := c.fillInputs(ctx, b.many); err != nil {
			return err
		}
		h := workflowhttp.New(c.store(), &workflowhttp.Options{Authorize: workflowhttp.HeaderPresent})
		return b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, workflows, %d runs", b.many), workers: 1,
			reference: subject{name: "GET of a run", op: getOf(h, "/v1/workflows/refund-%[2]d/runs/r%[1]d", b.many)},
			subjects: []subject{{
				name: "list by input.customer.id",
				op:   getOf(h, "/v1/workflows/refund-%[2]d/runs?input.customer.id=%[1]d", b.many),
				goal: below(50 * time.Millisecond),
			}},
		})
	})
}

// fillInputs writes finished runs of as many customers, and makes the index.
func (c crowd) fillInputs(ctx context.Context, runs int) error {
	for _, sql := range []string{
		fmt.Sprintf(`
			INSERT INTO %sworkflow_runs
				(id, workflow, version, status, epoch, nonce, since, retention, started, completed, input, output)
			SELECT 'r' || i, 'refund-' || i %% %d, 1, 'completed', 1, 'n', at, 30, at, at + interval '1 second',
				jsonb_build_object('customer', jsonb_build_object('id', i), 'plan', i %% 4), '"done"'
			FROM generate_series(0, %d - 1) AS i, LATERAL (SELECT now() - i * interval '1 second') AS t (at)`,
			c.prefix, kinds, runs),
		"CREATE INDEX ON " + c.prefix + "workflow_runs USING gin (input jsonb_path_ops)",
		"VACUUM (ANALYZE) " + c.prefix + "workflow_runs",
	} {
		if _, err := c.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// getOf returns an operation that gets a path with the number of a run and of its workflow in it. The answer has the
// run.
func getOf(h http.Handler, path string, runs int) operation {
	return func(ctx context.Context, _ int) error {
		n := rand.IntN(runs)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(path, n, n%kinds), http.NoBody)
		r.Header.Set("Authorization", "any")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), fmt.Sprintf(`"id":"r%d"`, n)) {
			return fmt.Errorf("%s is %d %s", r.URL, w.Code, w.Body)
		}
		return nil
	}
}
