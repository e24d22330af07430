package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
)

// subscribers is how many subscriptions a message is for.
const subscribers = 100

// workflowsPublish measures a message that starts a run for each of many subscriptions, in one transaction.
func (b *bench) workflowsPublish(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, db *postgres.DB) error {
		s := db.Workflows()
		for i := range subscribers {
			sub := workflow.Subscription{ID: fmt.Sprint("s", i), Pattern: "user.*", Workflow: "onboard"}
			if err := s.Subscribe(ctx, sub); err != nil {
				return err
			}
		}
		message := map[string]string{"text": stepOutput}
		publish := func(ctx context.Context, _ int) error {
			all, err := workflow.Publish(ctx, s, nil, "user.signup", workflow.NewID(), message)
			if err == nil && len(all) != subscribers {
				err = fmt.Errorf("%d runs are started, not %d", len(all), subscribers)
			}
			return err
		}
		alone := func(ctx context.Context, _ int) error {
			_, err := workflow.NewClient(s).Start(ctx, "onboard", message, nil)
			return err
		}
		// Without statistics, as in the first minute of a table, the server looks for keys in all rows.
		for i := range 20 {
			if err := publish(ctx, i); err != nil {
				return err
			}
		}
		if _, err := pool.Exec(ctx, "ANALYZE holdfast_workflow_runs"); err != nil {
			return err
		}
		return b.compete(ctx, contest{
			what: "PostgreSQL", workers: 1, reference: subject{name: "start of a run", op: alone},
			subjects: []subject{{
				name: fmt.Sprintf("publish to %d subscriptions", subscribers), op: publish,
				goal: below(20 * time.Millisecond),
			}},
		})
	})
}
