package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// suspendedRuns measures the passes of a drain that finds nothing to do beside suspended runs, against the same passes
// without them. The first pass of a process looks at all suspended runs, and then one in five minutes.
func (b *bench) suspendedRuns(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		without, err := newDoubtful(ctx, pool, "without_")
		if err != nil {
			return err
		}
		beside, err := newDoubtful(ctx, pool, "beside_")
		if err == nil {
			err = beside.suspend(ctx, b.suspended)
		}
		if err != nil {
			return err
		}
		for _, pass := range []struct {
			what string
			op   func(doubtful) operation
		}{
			{"a pass for runs that are due", func(d doubtful) operation { return listNone(d.bot, false) }},
			{"a pass for all", func(d doubtful) operation { return listNone(d.bot, true) }},
			{"a pass of bootdrain", func(d doubtful) operation { return d.drain }},
			{"the first pass of a process", func(d doubtful) operation { return d.boot }},
		} {
			err := b.compete(ctx, contest{
				what: "PostgreSQL, " + pass.what, workers: 1,
				reference: subject{name: "the same without", op: pass.op(without)},
				subjects: []subject{{
					name: fmt.Sprintf("beside %d suspended runs", b.suspended), op: pass.op(beside), goal: atMost(1.5),
				}},
			})
			if err != nil {
				return err
			}
			b.also(allocatingBytes(1 << 20))
		}
		return nil
	})
}

// A doubtful is a bot whose turns wait for the answer of a person, on tables of its own.
type doubtful struct {
	bot    *orchestrator.Orchestrator[counter]
	start  func() (*orchestrator.Orchestrator[counter], error) // the bot in another process
	pool   *pgxpool.Pool
	prefix string
}

func newDoubtful(ctx context.Context, pool *pgxpool.Pool, prefix string) (doubtful, error) {
	turns := pgcheckpoint.New(pool, &pgcheckpoint.Options{Prefix: prefix})
	runs := pgsnapshot.New(pool, &pgsnapshot.Options{Prefix: prefix})
	effects := pgledger.New(pool, &pgledger.Options{Prefix: prefix})
	_, err1 := pool.Exec(ctx, turns.Schema()+runs.Schema()+effects.Schema())
	pay := func(ctx context.Context, t *orchestrator.Turn[counter]) error {
		_, err := orchestrator.Once(ctx, t, "pay",
			func(context.Context, string) (int, error) { return 0, errors.New("no answer") }, nil)
		return err
	}
	start := func() (*orchestrator.Orchestrator[counter], error) {
		return orchestrator.New(orchestrator.Definition[counter]{
			Name: botName, Intents: orchestrator.Intents[counter]{"pay": {Run: pay}},
		}, turns, &orchestrator.Options{Snapshots: runs, Ledger: effects, Logger: slog.New(slog.DiscardHandler)})
	}
	bot, err2 := start()
	return doubtful{bot, start, pool, prefix}, errors.Join(err1, err2)
}

// suspend leaves so many suspended runs, each with an input of 4 KiB: one by the bot, and the others as copies of it.
func (d doubtful) suspend(ctx context.Context, n int) error {
	in := orchestrator.Input{Text: string(prose(1)[0])}
	_, err := d.bot.Execute(ctx, sessionName(0), in, nil)
	doubt, ok := errors.AsType[*orchestrator.InDoubtError](err)
	if !ok || !doubt.Ask {
		return fmt.Errorf("the turn does not wait for a person: %w", err)
	}
	for _, sql := range []string{
		copied("sessions", "'session', copy"),
		copied("runs", `'session', copy, 'id', 'run-' || i,
			'payload', replace(one.payload::text, $2, 'effect-' || i)::jsonb`),
		copied("effect_fences", "'run_id', 'run-' || i"),
		copied("effects", "'session', copy, 'run_id', 'run-' || i, 'id', 'effect-' || i, 'number', 1 + i"),
	} {
		_, err := d.pool.Exec(ctx, strings.ReplaceAll(sql, "{prefix}", d.prefix), n-1, doubt.Effects[0])
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	_, err = d.pool.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// copied returns a statement that copies the row of a table $1 times, with other values. $2 is the id of the effect.
func copied(table, values string) string {
	return `
		INSERT INTO {prefix}` + table + `
		SELECT another.*
		FROM {prefix}` + table + ` AS one,
			(SELECT i, 'session-' || lpad(i::text, 6, '0') FROM generate_series(1, $1::integer) AS i) AS copies (i, copy),
			jsonb_populate_record(one, jsonb_build_object(` + values + `)) AS another
		WHERE $2::text <> ''`
}

// drain is one pass that finds nothing to do.
func (d doubtful) drain(ctx context.Context, _ int) error {
	report, err := bootdrain.DrainInterrupted(ctx, d.bot, nil)
	if err == nil && report.Scanned != 0 {
		err = fmt.Errorf("the drain has found %d sessions", report.Scanned)
	}
	return err
}

// boot is the first pass of a process, which finds nothing to do.
func (d doubtful) boot(ctx context.Context, n int) error {
	bot, err := d.start()
	if err != nil {
		return err
	}
	return errors.Join(listNone(bot, true)(ctx, n), bot.Shutdown(ctx))
}

func listNone(bot bootdrain.Bot, all bool) operation {
	return func(ctx context.Context, _ int) error {
		n, err := count(bot.Recoverable(ctx, all))
		if err == nil && n != 0 {
			err = fmt.Errorf("it has found %d sessions", n)
		}
		return err
	}
}
