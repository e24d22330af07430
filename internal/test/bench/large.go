package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// turnsEach is how many turns a session of the compared tables has, and keeps.
const turnsEach = 100

// A filled is a store whose tables were loaded.
type filled struct {
	pool  *pgxpool.Pool
	store *pgcheckpoint.Store
	turns int
}

// postgresLarge measures turns among many turns against the same turns among few. The same number of sessions is in use
// in both tables. In the large table they lie far apart.
func (b *bench) postgresLarge(ctx context.Context) error {
	if b.large == 0 {
		b.log("  left out: -large says how many turns to load")
		return nil
	}
	return b.withFilled(ctx, b.small, func(small filled) error {
		return b.withFilled(ctx, b.large, func(large filled) error {
			return b.compareSizes(ctx, small, large)
		})
	})
}

func (b *bench) withFilled(ctx context.Context, turns int, f func(filled) error) error {
	o := testenv.Options{Settings: map[string]string{
		// With these settings the loaded rows are written once.
		"wal_level": "minimal", "max_wal_senders": "0",
		"shared_buffers": b.buffers, "max_wal_size": "4GB", "maintenance_work_mem": b.buffers,
	}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		if err := b.load(ctx, pool, store, turns); err != nil {
			return err
		}
		return f(filled{pool, store, turns})
	})
}

func (b *bench) compareSizes(ctx context.Context, small, large filled) error {
	active := b.small / turnsEach
	op := func(f filled, workers int) operation {
		r := newRota(active, workers)
		for i := range r.names {
			r.names[i] = sessionName(i * (f.turns / b.small))
		}
		return r.on(player{f.store, []json.RawMessage{json.RawMessage(`{"order": 7}`)}, turnsEach, ""}.play)
	}
	// These turns bring the rows in use into memory.
	for _, f := range []filled{small, large} {
		touch := op(f, 1)
		for range active {
			if err := touch(ctx, 0); err != nil {
				return err
			}
		}
	}
	for _, workers := range workerCounts {
		err := b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, %d sessions in use", active), workers: workers,
			reference: subject{name: fmt.Sprintf("among %d turns", small.turns), op: op(small, workers)},
			subjects: []subject{
				{
					name: fmt.Sprintf("Claim, Append among %d turns", large.turns),
					op:   op(large, workers), goal: atLeast(0.8),
				},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// load fills the tables by COPY, and builds the indexes of the schema afterwards.
func (b *bench) load(ctx context.Context, pool *pgxpool.Pool, store *pgcheckpoint.Store, turns int) error {
	start := time.Now()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	steps := []func() error{
		statement(ctx, tx, `TRUNCATE holdfast_sessions, holdfast_turns;
			ALTER TABLE holdfast_turns DROP CONSTRAINT holdfast_turns_pkey`),
		func() error { return b.copyHeads(ctx, conn, turns/turnsEach) },
		func() error { return b.copyTurns(ctx, conn, turns) },
		statement(ctx, tx, `ALTER TABLE holdfast_turns ADD PRIMARY KEY (orchestrator, session, turn)`),
		statement(ctx, tx, store.Schema()),
		func() error { return tx.Commit(ctx) },
		statement(ctx, conn, `ANALYZE; CHECKPOINT`),
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	var heap, indexes string
	err = conn.QueryRow(ctx, `SELECT pg_size_pretty(pg_table_size(t)), pg_size_pretty(pg_indexes_size(t))
		FROM (SELECT 'holdfast_turns'::regclass) AS t (t)`).Scan(&heap, &indexes)
	b.fact("%d turns: %s, and %s of indexes, loaded in %v", turns, heap, indexes, time.Since(start).Round(time.Second))
	b.log("  %d turns loaded in %v: %s, %s of indexes", turns, time.Since(start).Round(time.Second), heap, indexes)
	return err
}

func statement(ctx context.Context, db pgstate.Pool, sql string) func() error {
	return func() error {
		_, err := db.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
}

func (b *bench) copyHeads(ctx context.Context, conn *pgxpool.Conn, sessions int) error {
	const sql = `COPY holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born, turn)
		FROM STDIN (FREEZE)`
	return copyRows(ctx, conn, sql, sessions, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%s\t%s\t1\t\t\t2026-01-01\t1\t%d\n", botName, sessionName(i), turnsEach-1)
		return err
	})
}

func (b *bench) copyTurns(ctx context.Context, conn *pgxpool.Conn, turns int) error {
	const sql = `COPY holdfast_turns (orchestrator, session, turn, state, signature, version, run_id)
		FROM STDIN (FREEZE)`
	return copyRows(ctx, conn, sql, turns, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%s\t%s\t%d\t{\"order\": 7}\ts\t1\tr%d\n",
			botName, sessionName(i/turnsEach), i%turnsEach, i)
		return err
	})
}

// copyRows copies n rows, which row writes as text.
func copyRows(ctx context.Context, conn *pgxpool.Conn, sql string, n int, row func(w io.Writer, i int) error) error {
	from, to := io.Pipe()
	go func() {
		w := bufio.NewWriterSize(to, 1<<16)
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = row(w, i)
		}
		to.CloseWithError(errors.Join(err, w.Flush()))
	}()
	_, err := conn.Conn().PgConn().CopyFrom(ctx, from, sql)
	from.CloseWithError(io.ErrClosedPipe) // if the server has refused the rows
	return err
}
