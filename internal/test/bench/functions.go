package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// postgresFunctions measures whole turns by functions against the same turns by the statements of the stores. It
// measures them again for a driver that may not keep prepared statements, as behind some poolers. There is no goal:
// decision 0026 says why the stores send statements.
func (b *bench) postgresFunctions(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		config := pool.Config()
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		forgetful, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer forgetful.Close()
		_, err = pool.Exec(ctx, pgcheckpoint.New(pool, &pgcheckpoint.Options{Functions: true}).Schema()+
			pgsnapshot.New(pool, &pgsnapshot.Options{Functions: true}).Schema())
		if err = errors.Join(err, b.describe(ctx, pool, "")); err != nil {
			return err
		}
		statements, functions := b.players(pool)
		err = errors.Join(statements.fillAll(ctx, b.sessions, b.keep+5), functions.fillAll(ctx, b.sessions, b.keep+5))
		for _, workers := range workerCounts {
			if err == nil {
				err = b.compareFunctions(ctx, pool, "PostgreSQL, functions", workers, pool)
			}
		}
		if err == nil {
			err = b.compareFunctions(ctx, pool, "PostgreSQL, functions, nothing prepared", 8, forgetful)
		}
		if err == nil {
			err = b.weighFunctions(ctx, pool)
		}
		return err
	})
}

// players returns two players of the same turns: one uses statements, the other functions.
func (b *bench) players(pool *pgxpool.Pool) (statements, functions resumable) {
	states := prose(64)
	statements = newResumable(
		player{pgcheckpoint.New(pool, nil), states, b.keep, "statements-"}, pgsnapshot.New(pool, nil))
	functions = newResumable(
		player{pgcheckpoint.New(pool, &pgcheckpoint.Options{Functions: true}), states, b.keep, "functions-"},
		pgsnapshot.New(pool, &pgsnapshot.Options{Functions: true}))
	return statements, functions
}

// compareFunctions measures turns on one pool, and tidies on another.
func (b *bench) compareFunctions(
	ctx context.Context, tidy *pgxpool.Pool, what string, workers int, pool *pgxpool.Pool,
) error {
	rota := newRota(b.sessions, workers)
	statements, functions := b.players(pool)
	for _, c := range []contest{{
		reference: subject{name: "statements: Claim, Append", op: rota.on(statements.player.play)},
		subjects:  []subject{{name: "Claim, Append", op: rota.on(functions.player.play)}},
	}, {
		reference: subject{name: "statements: … with a reply owed, Mark", op: rota.on(statements.deliver)},
		subjects:  []subject{{name: "Claim, Append with a reply owed, Mark", op: rota.on(functions.deliver)}},
	}, {
		reference: subject{name: "statements: … Begin, Save, Settle", op: rota.on(statements.play)},
		subjects:  []subject{{name: "Claim, Begin, Save, Settle", op: rota.on(functions.play)}},
	}} {
		c.what, c.workers = what, workers
		c.between = func(ctx context.Context) error { return tidyTables(ctx, tidy) }
		if err := b.compete(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// tidyTables is tidy for the tables of this suite.
func tidyTables(ctx context.Context, pool *pgxpool.Pool) error {
	for _, table := range []string{"holdfast_sessions", "holdfast_turns", "holdfast_runs"} {
		if _, err := pool.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}

// weighFunctions adds to the report how much of the server's processor a turn takes, and how much it writes to the
// server's log. It reports the cheapest tenth of the laps: a neighbour makes a lap dearer, and never cheaper. A
// checkpoint comes first, and each session is played once before. So few pages are logged whole.
func (b *bench) weighFunctions(ctx context.Context, pool *pgxpool.Pool) error {
	statements, functions := b.players(pool)
	loads := []*load{
		{name: "statements: Claim, Append", play: statements.player.play},
		{name: "functions: Claim, Append", play: functions.player.play},
		{name: "statements: Claim, Append with a reply owed, Mark", play: statements.deliver},
		{name: "functions: Claim, Append with a reply owed, Mark", play: functions.deliver},
		{name: "statements: Claim, Begin, Save, Settle", play: statements.play},
		{name: "functions: Claim, Begin, Save, Settle", play: functions.play},
	}
	for lap := range 1 + 3*b.rounds {
		if lap == 1 {
			if _, err := pool.Exec(ctx, "CHECKPOINT"); err != nil {
				return err
			}
		}
		for i := range loads {
			if lap%2 == 1 {
				i = len(loads) - 1 - i
			}
			if err := loads[i].weigh(ctx, pool, b.sessions, lap > 0); err != nil {
				return err
			}
		}
	}
	for _, l := range loads {
		b.fact("%s: %d µs of the server's processor and %d bytes of its log a turn", l.name,
			cheap(l.took)/int64(b.sessions)/1000, cheap(l.wrote)/int64(b.sessions))
	}
	return nil
}

// A load holds the cost of turns to a server, lap by lap.
type load struct {
	name string
	play func(ctx context.Context, session string) error
	// took is in nanoseconds and wrote in bytes, for each lap.
	took, wrote []int64
}

// weigh plays a turn of each session on one connection.
func (l *load) weigh(ctx context.Context, pool *pgxpool.Pool, sessions int, counts bool) error {
	before, err := spent(ctx, pool)
	for i := range sessions {
		if err == nil {
			err = l.play(ctx, sessionName(i))
		}
	}
	if err != nil {
		return err
	}
	after, err := spent(ctx, pool)
	if counts {
		l.took, l.wrote = append(l.took, after.nanoseconds-before.nanoseconds),
			append(l.wrote, after.bytes-before.bytes)
	}
	return err
}

// expense is the work of a server since it started.
type expense struct{ nanoseconds, bytes int64 }

// spent adds up the use of the processes that serve the pool, and tells where the log ends.
func spent(ctx context.Context, pool *pgxpool.Pool) (e expense, err error) {
	var pids []int
	err = pool.QueryRow(ctx, `
		SELECT array_agg(pid), (pg_current_wal_insert_lsn() - '0/0')::bigint
		FROM pg_stat_activity WHERE backend_type = 'client backend'`).Scan(&pids, &e.bytes)
	for _, pid := range pids {
		var ran int64
		stat, failed := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if failed == nil {
			_, failed = fmt.Sscan(string(stat), &ran)
		}
		e.nanoseconds += ran
		err = errors.Join(err, failed)
	}
	return e, err
}

func cheap(values []int64) int64 {
	slices.Sort(values)
	return values[len(values)/10]
}
