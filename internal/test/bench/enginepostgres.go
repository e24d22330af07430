package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// answering returns a body that answers with the states of a player, as its own documents.
func answering() func(context.Context, *orchestrator.Turn[conversation]) error {
	states := conversations(64)
	return func(_ context.Context, t *orchestrator.Turn[conversation]) error {
		t.State = states[t.Index%len(states)]
		return nil
	}
}

func oneIteration() orchestrator.Definition[conversation] {
	return orchestrator.Definition[conversation]{
		Name: "one", Intents: orchestrator.Intents[conversation]{"answer": {Run: answering()}},
	}
}

func twoIterations() orchestrator.Definition[conversation] {
	return orchestrator.Definition[conversation]{
		Name: "two", First: "look", Iterate: true, Intents: orchestrator.Intents[conversation]{
			"look":   {Run: answering(), Next: orchestrator.To("answer")},
			"answer": {Run: answering(), Next: orchestrator.End},
		},
	}
}

// enginePostgres measures which share of its stores' speed the engine keeps.
func (b *bench) enginePostgres(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		twice := map[int]goal{1: atLeast(1.6), 8: atLeast(1.6), mostWorkers: atLeast(1.5)}
		return b.compareEngine(ctx, "PostgreSQL", pool, store, "", engineGoals{atLeast(0.75), atLeast(0.65), twice})
	})
}

// engineSlowDisk measures the same on a disk where a commit takes longer than the work around it.
func (b *bench) engineSlowDisk(ctx context.Context) error {
	return b.withSlowDisk(ctx, func(pool *pgxpool.Pool, store *pgcheckpoint.Store, described string) error {
		return b.compareEngine(ctx, "PostgreSQL, slow disk", pool, store, described, engineGoals{})
	})
}

// engineGoals are the goals of three kinds of turns, by workers: of one iteration without snapshots, of one iteration
// with them, and of two.
type engineGoals struct {
	once, recorded goal
	twice          map[int]goal
}

// compareEngine measures turns of one iteration that cannot be resumed, and turns of one and two iterations that can.
func (b *bench) compareEngine(
	ctx context.Context, where string, pool *pgxpool.Pool, store *pgcheckpoint.Store, described string,
	goals engineGoals,
) error {
	states := prose(64)
	runs := pgsnapshot.New(pool, nil)
	recipe := supervisor{recipe{pool, states, b.keep}}
	stores := newResumable(player{store, states, b.keep, ""}, runs)
	one, err1 := newActor(oneIteration(), store, nil, b.keep)
	recorded, err2 := newActor(oneIteration(), store, runs, b.keep)
	two, err3 := newActor(twoIterations(), store, runs, b.keep)
	_, err4 := pool.Exec(ctx, runs.Schema()+supervisorSchema)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	err := errors.Join(
		recipe.fillAll(ctx, b.sessions, b.keep+5),
		stores.fillAll(ctx, b.sessions, b.keep+5),
		one.fillAll(ctx, b.sessions, b.keep+5),
		recorded.fillAll(ctx, b.sessions, 1),
		two.fillAll(ctx, b.sessions, b.keep+5),
		b.describe(ctx, pool, described))
	if err != nil {
		return err
	}
	for _, workers := range workerCounts {
		rota := newRota(b.sessions, workers)
		contests := []contest{{
			what: where + ", one iteration", reference: subject{name: "Claim, Append", op: rota.on(stores.player.play)},
			subjects: []subject{{name: "Execute", op: rota.on(one.play), goal: goals.once}},
		}, {
			what:      where + ", one iteration",
			reference: subject{name: "Execute without snapshots", op: rota.on(one.play)},
			subjects:  []subject{{name: "Execute with snapshots", op: rota.on(recorded.play), goal: goals.recorded}},
		}, {
			what: where + ", two iterations", reference: subject{name: "eight round trips", op: rota.on(recipe.play)},
			subjects: []subject{
				{name: "Execute", op: rota.on(two.play), goal: goals.twice[workers]},
				{name: "what Execute asks of its stores", op: rota.on(stores.play)},
			},
		}}
		for _, c := range contests {
			c.workers = workers
			c.between = func(ctx context.Context) error { return tidyRuns(ctx, pool) }
			if err := b.compete(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}
