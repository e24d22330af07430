package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

const (
	page       = 100 // sessions
	owingShare = 100 // of so many sessions one owes
)

// listing measures how long it takes to find sessions among many turns.
func (b *bench) listing(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		if err := b.populate(ctx, pool); err != nil {
			return err
		}
		all := checkpoint.SessionQuery{Orchestrator: botName}
		first, owing := all, all
		first.Limit, owing.Owing = page, true
		return b.compete(ctx, contest{
			what: fmt.Sprintf("listing, %d turns of %d sessions", b.listed*b.turns, b.listed), workers: 1,
			reference: subject{name: "SELECT DISTINCT", op: distinct(pool, b.listed)},
			subjects: []subject{
				{name: "Sessions, all", op: list(store, all, b.listed), goal: atLeast(10)},
				{
					name: "Sessions, first page", op: list(store, first, min(page, b.listed)),
					goal: below(5 * time.Millisecond),
				},
				{name: "Sessions, owing", op: list(store, owing, b.listed/owingShare), goal: goal{kind: latency}},
			},
		})
	})
}

// populate writes the rows that the store would have written. The statements know the store's tables, which are
// documented.
func (b *bench) populate(ctx context.Context, pool *pgxpool.Pool) error {
	var batch pgx.Batch
	batch.Queue(`
		INSERT INTO holdfast_turns (orchestrator, session, turn, state, signature, version, run_id)
		SELECT $1, 'session-' || lpad(s::text, 6, '0'), t, '{"order": 7}', 'signature', '1', 'run-' || s || '-' || t
		FROM generate_series(0, $2::integer - 1) AS s, generate_series(0, $3::integer - 1) AS t`, botName, b.listed, b.turns)
	batch.Queue(`
		INSERT INTO holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born, turn, owed)
		SELECT $1, 'session-' || lpad(s::text, 6, '0'), 1, '', '', now(), 1, $3::integer - 1, CASE WHEN s % $4 = 0 THEN $3::integer - 1 END
		FROM generate_series(0, $2::integer - 1) AS s`, botName, b.listed, b.turns, owingShare)
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, `VACUUM (ANALYZE)`)
	return err
}

func distinct(pool *pgxpool.Pool, want int) operation {
	return func(ctx context.Context, _ int) error {
		rows, err := pool.Query(ctx, `SELECT DISTINCT session FROM holdfast_turns WHERE orchestrator = $1`, botName)
		if err != nil {
			return err
		}
		sessions, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err == nil && len(sessions) != want {
			err = fmt.Errorf("SELECT DISTINCT found %d sessions, not %d", len(sessions), want)
		}
		return err
	}
}

func list(store checkpoint.Reader, q checkpoint.SessionQuery, want int) operation {
	return func(ctx context.Context, _ int) error {
		n, err := count(store.Sessions(ctx, q))
		if err == nil && n != want {
			err = fmt.Errorf("it found %d sessions, not %d", n, want)
		}
		return err
	}
}
