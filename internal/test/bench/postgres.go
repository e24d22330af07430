package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

const mostWorkers = 32

// workerCounts are the numbers of workers that PostgreSQL is measured with.
var workerCounts = [...]int{1, 8, mostWorkers}

// withPostgres runs f with a durable PostgreSQL that has the store's tables.
func (b *bench) withPostgres(
	ctx context.Context, o testenv.Options, f func(*pgxpool.Pool, *pgcheckpoint.Store) error,
) (err error) {
	o.Durable = true
	url, stop, err := b.postgres(&o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = mostWorkers
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	store := pgcheckpoint.New(pool, nil)
	if _, err := pool.Exec(ctx, store.Schema()); err != nil {
		return err
	}
	return f(pool, store)
}

// describe adds the server's settings to the report.
func (b *bench) describe(ctx context.Context, pool *pgxpool.Pool, note string) error {
	var settings string
	err := pool.QueryRow(ctx, `
		SELECT 'PostgreSQL ' || current_setting('server_version') || ': ' || string_agg(name || ' ' || current_setting(name), ', ' ORDER BY name)
		FROM unnest('{fsync,full_page_writes,synchronous_commit,wal_sync_method,shared_buffers,max_wal_size,autovacuum}'::text[]) AS name`).
		Scan(&settings)
	if err == nil {
		b.fact("%s%s", settings, note)
	}
	return err
}

func (b *bench) postgresTurns(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		if err := b.describe(ctx, pool, ""); err != nil {
			return err
		}
		goals := map[int]goal{1: atLeast(1.2), 8: atLeast(1.1), mostWorkers: atLeast(1.1)}
		return b.compareTurns(ctx, "PostgreSQL", pool, store, goals, atLeast(0.9))
	})
}

// compareTurns measures whole turns of sessions that are past their keep threshold.
func (b *bench) compareTurns(
	ctx context.Context, where string, pool *pgxpool.Pool, store *pgcheckpoint.Store, goals map[int]goal,
	delivered goal,
) error {
	states := prose(64)
	theirs := recipe{pool, states, b.keep}
	ours := player{store, states, b.keep, ""}
	bare := bare{pool, states, new([mostWorkers]int)}
	err := errors.Join(
		theirs.fillAll(ctx, b.sessions, b.keep+5),
		ours.fillAll(ctx, b.sessions, b.keep+5),
		bare.create(ctx))
	if err != nil {
		return err
	}
	for _, workers := range workerCounts {
		rota := newRota(b.sessions, workers)
		err := b.compete(ctx, contest{
			what: where, workers: workers, reference: subject{name: "recipe", op: rota.on(theirs.play)},
			subjects: []subject{
				{name: "Claim, Append", op: rota.on(ours.play), goal: goals[workers]},
				{name: "Claim, Append with a reply owed, Mark", op: rota.on(ours.deliver), goal: delivered},
				{name: "bare INSERT", op: bare.insert},
			},
			between: func(ctx context.Context) error { return tidy(ctx, pool) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tidy does between rounds the work of autovacuum. Autovacuum comes once a minute, much too seldom for rounds of
// seconds. tidy removes dead rows, which cost the recipe's open-ended prune more than ours.
func tidy(ctx context.Context, pool *pgxpool.Pool) error {
	for _, sql := range []string{
		"TRUNCATE bare",
		"VACUUM (ANALYZE) warlock_orchestrator_sessions",
		"VACUUM (ANALYZE) holdfast_sessions",
		"VACUUM (ANALYZE) holdfast_turns",
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// bare inserts single rows. It shows the cost of durability alone.
type bare struct {
	pool   *pgxpool.Pool
	states []json.RawMessage
	turn   *[mostWorkers]int // by worker
}

// create makes a table like the store's turns, with only the primary key.
func (b bare) create(ctx context.Context) error {
	_, err := b.pool.Exec(ctx, `
		CREATE TABLE bare (LIKE holdfast_turns INCLUDING DEFAULTS INCLUDING COMPRESSION);
		ALTER TABLE bare SET (toast_tuple_target = 4080);
		ALTER TABLE bare ADD PRIMARY KEY (orchestrator, session, turn)`)
	return err
}

func (b bare) insert(ctx context.Context, worker int) error {
	turn := b.turn[worker]
	b.turn[worker]++
	_, err := b.pool.Exec(ctx, `
		INSERT INTO bare (orchestrator, session, turn, state, route, signature, version, run_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		botName, sessionName(worker), turn, string(b.states[turn%len(b.states)]), []string{"refund"},
		signature, "1", rand.Text())
	return err
}
