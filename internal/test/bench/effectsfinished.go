package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// openEffects is how many effects are open beside the finished ones.
const openEffects = 20

// effectsFinished measures an Issue and the list of open effects beside many finished effects, against the same beside
// few.
func (b *bench) effectsFinished(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{"shared_buffers": b.buffers, "max_wal_size": "4GB"}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		few, many := finished{pool, "few_", b.few}, finished{pool, "many_", b.many}
		for _, f := range []finished{few, many} {
			if err := f.fill(ctx); err != nil {
				return err
			}
		}
		for _, c := range []contest{{
			what: "the open ones", reference: subject{op: few.list()}, subjects: []subject{{op: many.list()}},
		}, {
			what: "Issue", reference: subject{op: few.issue()}, subjects: []subject{{op: many.issue()}},
			between: func(ctx context.Context) error {
				if err := few.tidy(ctx); err != nil {
					return err
				}
				return many.tidy(ctx)
			},
		}} {
			c.what = "PostgreSQL, effects: " + c.what
			c.workers = 1
			c.reference.name = fmt.Sprintf("beside %d finished", b.few)
			c.subjects[0].name = fmt.Sprintf("beside %d finished", b.many)
			c.subjects[0].goal = atMost(1.2)
			if err := b.compete(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// A finished is a ledger with so many finished effects.
type finished struct {
	pool    *pgxpool.Pool
	prefix  string
	effects int
}

func (f finished) ledger() *pgledger.Ledger {
	return pgledger.New(f.pool, &pgledger.Options{Prefix: f.prefix})
}

// fill writes the rows that the ledger would have written, ten of each run. The statements know the ledger's tables,
// which are documented.
func (f finished) fill(ctx context.Context) error {
	l := f.ledger()
	if _, err := f.pool.Exec(ctx, l.Schema()); err != nil {
		return err
	}
	_, err := f.pool.Exec(ctx, `
		INSERT INTO `+f.prefix+`effects (id, orchestrator, session, run_id, iteration, intent, name, each, key, class,
			epoch, nonce, args_sum, args, result, issued_at, attempts, state, finished_at)
		SELECT md5(i::text), $1, 'session-' || i / 100, md5('run' || i / 10), 0, 'work', 'ask', (i % 10)::text, '', 2,
			1, 'n', 'sha256:' || md5(i::text), '{"order": 7}', '{"refund": 7}', now(), 1, 'completed', now()
		FROM generate_series(0, $2::integer - 1) AS i`, botName, f.effects)
	if err != nil {
		return err
	}
	_, err = f.pool.Exec(ctx, `
		INSERT INTO `+f.prefix+`effect_fences
		SELECT md5('run' || i), 1, 'n', now() FROM generate_series(0, $1::integer / 10) AS i`, f.effects)
	for range openEffects {
		if err == nil {
			_, _, err = l.Issue(ctx, pending("pending"), false)
		}
	}
	if err != nil {
		return err
	}
	return f.tidy(ctx)
}

// hexID returns an id like those of the rows that fill writes, and of the engine.
func hexID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	return hex.EncodeToString(id)
}

// pending returns a new effect of a run.
func pending(run string) ledger.Effect {
	return ledger.Effect{
		ID: hexID(), Orchestrator: botName, Session: "session-" + run, RunID: run, Intent: "work", Name: "ask",
		Class: ledger.Idempotent, Fence: lock.Fence{Epoch: 1, Nonce: "n"}, Args: []byte(`{"order": 7}`),
		ArgsSum: "sha256:" + hexID(),
	}
}

// tidy removes what issue has added.
func (f finished) tidy(ctx context.Context) error {
	for _, sql := range []string{
		"DELETE FROM " + f.prefix + "effects WHERE state = 'issued' AND run_id <> 'pending'",
		"VACUUM (ANALYZE) " + f.prefix + "effects",
		"VACUUM (ANALYZE) " + f.prefix + "effect_fences",
	} {
		if _, err := f.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// issue issues effects, ten of each run.
func (f finished) issue() operation {
	l := f.ledger()
	n, run := 0, ""
	return func(ctx context.Context, _ int) error {
		if n%effectsEach == 0 {
			run = hexID()
		}
		n++
		_, issued, err := l.Issue(ctx, pending(run), false)
		if err == nil && !issued {
			err = fmt.Errorf("effect %d of run %s was known", n, run)
		}
		return err
	}
}

func (f finished) list() operation {
	l := f.ledger()
	return func(ctx context.Context, _ int) error {
		n, err := count(l.Effects(ctx, ledger.Query{Orchestrator: botName, Open: true}))
		if err == nil && n != openEffects {
			err = fmt.Errorf("%d effects are open, not %d", n, openEffects)
		}
		return err
	}
}

// count returns how many values a listing yields, until it fails.
func count[V any](values iter.Seq2[V, error]) (n int, err error) {
	for _, err := range values {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
