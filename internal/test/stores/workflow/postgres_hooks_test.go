package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// agePool makes all times of a database older.
const agePool = `
	UPDATE holdfast_workflow_runs SET due = due - $1::interval, since = since - $1::interval,
		started = started - $1::interval, completed = completed - $1::interval;
	UPDATE holdfast_workflow_steps SET until = until - $1::interval, started = started - $1::interval,
		completed = completed - $1::interval;
	UPDATE holdfast_workflow_signals SET at = at - $1::interval;
	UPDATE holdfast_workflow_definitions SET at = at - $1::interval;
	UPDATE holdfast_workflow_limits SET at = at - $1::interval;
	UPDATE holdfast_beats SET at = at - $1::interval`

// hookedPool returns stores on one pool, the last of which is empty.
func hookedPool(t *testing.T) func(t *testing.T) hooked {
	p := pgtest.EmptyPool(t)
	s := onPostgres.On(t, p, "").(*pgworkflow.Store)
	return func(t *testing.T) hooked {
		pgtest.Clear(t, p)
		return onPool(p, s)
	}
}

var forPool = strings.NewReplacer("{never}", "'infinity'", "{input}", ", input", "{value}", ", 'null'",
	"{lock}", "SELECT FROM holdfast_workflow_runs WHERE id = $1 FOR SHARE")

func onPool(p *pgxpool.Pool, s *pgworkflow.Store) hooked {
	return hooked{
		store: s,
		age: func(ctx context.Context, d time.Duration) error {
			_, err := p.Exec(ctx, strings.ReplaceAll(agePool, "$1", fmt.Sprintf("'%d us'", d.Microseconds())))
			return err
		},
		open: func(ctx context.Context, run string, c workflowtest.Change) (commit func() error, err error) {
			tx, err := p.Begin(ctx)
			if err != nil {
				return nil, err
			}
			for _, text := range changes[c] {
				_, e := tx.Exec(ctx, forPool.Replace(text), run)
				err = errors.Join(err, e)
			}
			return func() error { return tx.Commit(ctx) }, err
		},
	}
}

func TestPostgresDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ run, step string }{
		{"started = 'infinity'", "completed = 'infinity'"},
		{"started = '-infinity'", "started = '-infinity'"},
		{"version = 0", "idx = -1"},
		{"hold = 'odd'", "kind = 'odd'"},
		{"completed = now()", "outcome = 'odd'"},
		{"started = '20000-01-01Z'", "until = '20000-01-01Z'"},
	} {
		t.Run(c.run, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			s := onPostgres.On(t, p, "").(*pgworkflow.Store)
			workflowtest.RunDamaged(t, func(t *testing.T) workflowtest.DamagingStore {
				pgtest.Clear(t, p)
				h := onPool(p, s)
				h.damage = func(ctx context.Context, run, step string) error {
					text := "UPDATE holdfast_workflow_runs SET " + c.run + " WHERE id = $1 AND '' = $2"
					if step != "" {
						text = "UPDATE holdfast_workflow_steps SET " + c.step + " WHERE run = $1 AND name = $2"
					}
					_, err := p.Exec(ctx, text, run, step)
					return err
				}
				return h
			})
		})
	}
}
