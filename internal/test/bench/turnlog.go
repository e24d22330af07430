package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// loggedPhases are the phases of a turn that calls one tool.
var loggedPhases = []string{
	turnlog.Started, turnlog.LLMComplete, turnlog.ToolDispatched, turnlog.ToolReceived, turnlog.LLMComplete,
	turnlog.Settled,
}

// logPostgres measures which share of the disk's speed Record keeps, and what a turn log costs a turn.
func (b *bench) logPostgres(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		if err := b.compareRecord(ctx, "PostgreSQL", pool, ""); err != nil {
			return err
		}
		return b.compareLogged(ctx, "PostgreSQL", pool, store, atLeast(0.6))
	})
}

// logSlowDisk measures the same on a disk where a commit takes longer than the work around it.
func (b *bench) logSlowDisk(ctx context.Context) error {
	return b.withSlowDisk(ctx, func(pool *pgxpool.Pool, store *pgcheckpoint.Store, described string) error {
		if err := b.compareRecord(ctx, "PostgreSQL, slow disk", pool, described); err != nil {
			return err
		}
		return b.compareLogged(ctx, "PostgreSQL, slow disk", pool, store, atLeast(0.7))
	})
}

// compareLogged measures turns of two iterations with a turn log, which has started and settled of each.
func (b *bench) compareLogged(
	ctx context.Context, where string, pool *pgxpool.Pool, store *pgcheckpoint.Store, g goal,
) error {
	runs := pgsnapshot.New(pool, nil)
	if _, err := pool.Exec(ctx, runs.Schema()); err != nil {
		return err
	}
	plain, err1 := newActor(twoIterations(), store, runs, b.keep)
	d := twoIterations()
	d.Name = "logged"
	bot, err2 := orchestrator.New(d, store, &orchestrator.Options{
		Snapshots: runs, KeepSnapshots: b.keep, TurnLog: pgturnlog.New(pool, nil),
	})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	recorded := actor[conversation]{bot}
	err := errors.Join(plain.fillAll(ctx, b.sessions, b.keep+5), recorded.fillAll(ctx, b.sessions, b.keep+5))
	if err != nil {
		return err
	}
	for _, workers := range []int{1, 8} {
		rota := newRota(b.sessions, workers)
		err := b.compete(ctx, contest{
			what: where + ", two iterations", workers: workers,
			reference: subject{name: "Execute", op: rota.on(plain.play)},
			subjects:  []subject{{name: "Execute with a turn log", op: rota.on(recorded.play), goal: g}},
			between: func(ctx context.Context) error {
				_, err := pool.Exec(ctx, `TRUNCATE holdfast_phases, holdfast_logged`)
				return err
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) compareRecord(ctx context.Context, where string, pool *pgxpool.Pool, described string) error {
	log := pgturnlog.New(pool, nil)
	_, err := pool.Exec(ctx, log.Schema()+`
		CREATE TABLE bare_phases (id text COLLATE "C" PRIMARY KEY, state jsonb) WITH (toast_tuple_target = 4080);
		ALTER TABLE bare_phases ALTER COLUMN state SET COMPRESSION lz4;`)
	if err := errors.Join(err, b.describe(ctx, pool, described)); err != nil {
		return err
	}
	states := prose(64)
	for _, workers := range []int{1, 8} {
		type place struct {
			run      string
			n, phase int
			_        [64]byte // a cache line of its own
		}
		places := make([]place, workers)
		record := func(ctx context.Context, worker int) error {
			p := &places[worker]
			if p.n++; p.run == "" || p.phase == len(loggedPhases) {
				p.run, p.phase = rand.Text(), 0
			}
			p.phase++
			return log.Record(ctx, turnlog.Entry{
				Run: p.run, Orchestrator: botName, Session: "session-" + p.run[:3], Phase: loggedPhases[p.phase-1],
				State: states[p.n%len(states)], At: time.UnixMilli(1_700_000_000_000 + int64(p.n)),
			})
		}
		counts := make([]int, 16*workers)
		insert := func(ctx context.Context, worker int) error {
			counts[16*worker]++
			_, err := pool.Exec(ctx, `INSERT INTO bare_phases VALUES ($1, $2)`, rand.Text(),
				string(states[counts[16*worker]%len(states)]))
			return err
		}
		err := b.compete(ctx, contest{
			what: where + ", turn log", workers: workers,
			reference: subject{name: "a bare INSERT of one row", op: insert},
			subjects:  []subject{{name: "Record", op: record, goal: atLeast(0.85)}},
			between: func(ctx context.Context) error {
				clear(places)
				_, err := pool.Exec(ctx, `TRUNCATE bare_phases, holdfast_phases, holdfast_logged`)
				return err
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// longTurn is how many phases the turn has whose Restore is measured.
const longTurn = 1000

// loggedTurns measures the list of the open turns beside many turns, against the same beside few, and the Restore of a
// long turn beside many.
func (b *bench) loggedTurns(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{"shared_buffers": b.buffers, "max_wal_size": "4GB"}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		few, many := logged{pool, "few_", b.few}, logged{pool, "many_", b.many}
		for _, l := range []logged{few, many} {
			if err := l.fill(ctx); err != nil {
				return err
			}
		}
		if err := b.compete(ctx, contest{
			what: "PostgreSQL, turn log: the open ones", workers: 1,
			reference: subject{name: fmt.Sprintf("beside %d turns", b.few), op: few.list()},
			subjects:  []subject{{name: fmt.Sprintf("beside %d turns", b.many), op: many.list(), goal: atMost(1.2)}},
		}); err != nil {
			return err
		}
		return b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, turn log: Restore beside %d turns", b.many), workers: 1,
			reference: subject{name: "of a turn with 1 phase", op: many.restore("open 0", 1)},
			subjects: []subject{{
				name: fmt.Sprintf("of a turn with %d phases", longTurn), op: many.restore("long", longTurn),
				goal: below(5 * time.Millisecond),
			}},
		})
	})
}

// A logged is a log with so many settled turns.
type logged struct {
	pool   *pgxpool.Pool
	prefix string
	turns  int
}

func (l logged) log() *pgturnlog.Log {
	return pgturnlog.New(l.pool, &pgturnlog.Options{Prefix: l.prefix})
}

// openTurns is how many turns are open beside the settled ones.
const openTurns = 20

// fill writes the rows that the log would have written, two for each turn. The statements know the log's tables, which
// are documented. Then fill records the turns that are open, and a long one.
func (l logged) fill(ctx context.Context) error {
	log := l.log()
	_, err := l.pool.Exec(ctx, log.Schema())
	for _, sql := range []string{
		`INSERT INTO ` + l.prefix + `phases (run, at, phase, state)
			SELECT md5(i::text), '2020-01-01Z'::timestamptz + (i * 2 + n) * interval '1 ms',
				CASE n WHEN 0 THEN 'started' ELSE 'settled' END, '{"order": 7}'
			FROM generate_series(0, $1::integer - 1) AS i, generate_series(0, 1) AS n`,
		`INSERT INTO ` + l.prefix + `logged (run, orchestrator, session, turn, first, last, started, settled, open)
			SELECT md5(i::text), '` + botName + `', 'session-' || i / 100, i % 100, c.first, c.last, c.first, c.last, false
			FROM generate_series(0, $1::integer - 1) AS i, LATERAL (
				SELECT '2020-01-01Z'::timestamptz + i * 2 * interval '1 ms' AS first,
					'2020-01-01Z'::timestamptz + (i * 2 + 1) * interval '1 ms' AS last) AS c`,
	} {
		if err == nil {
			_, err = l.pool.Exec(ctx, sql, l.turns)
		}
	}
	if err != nil {
		return err
	}
	record := func(run, phase string, n int) error {
		return log.Record(ctx, turnlog.Entry{
			Run: run, Orchestrator: botName, Session: run, Phase: phase, State: []byte(`{"order": 7}`),
			At: time.UnixMilli(1_700_000_000_000 + int64(n)),
		})
	}
	for i := range openTurns {
		err = errors.Join(err, record(fmt.Sprint("open ", i), turnlog.Started, i))
	}
	for i := range longTurn {
		err = errors.Join(err, record("long", turnlog.ToolReceived, i))
	}
	err = errors.Join(err, record("long", turnlog.Settled, longTurn))
	for _, table := range []string{"phases", "logged"} {
		if err == nil {
			_, err = l.pool.Exec(ctx, "VACUUM (ANALYZE) "+l.prefix+table)
		}
	}
	return err
}

// list lists the turns that are open.
func (l logged) list() operation {
	log := l.log()
	return func(ctx context.Context, _ int) error {
		n := 0
		for _, err := range log.Turns(ctx, turnlog.Query{Open: true}) {
			if err != nil {
				return err
			}
			n++
		}
		if n != openTurns {
			return fmt.Errorf("%d open turns, want %d", n, openTurns)
		}
		return nil
	}
}

// restore restores a turn of so many entries at least.
func (l logged) restore(run string, least int) operation {
	log := l.log()
	return func(ctx context.Context, _ int) error {
		all, err := log.Restore(ctx, run)
		if err == nil && len(all) < least {
			err = fmt.Errorf("%d entries, want %d", len(all), least)
		}
		return err
	}
}
