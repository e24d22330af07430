package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// effectsEach is how many effects a turn has. Each is issued, and it is finished: two commits, if neither rides with
// another write.
const effectsEach = 10

// tenEffects is a bot whose turns do so many effects, one after the other. Each effect has a result of 4 KiB.
func tenEffects() orchestrator.Definition[conversation] {
	states := conversations(64)
	work := func(ctx context.Context, t *orchestrator.Turn[conversation]) error {
		for i := range effectsEach {
			result, err := orchestrator.Once(ctx, t, "ask",
				func(context.Context, string) (conversation, error) { return states[(t.Index+i)%len(states)], nil },
				&orchestrator.OnceOptions[conversation]{
					Class: ledger.Idempotent, Each: fmt.Sprint(i), Args: map[string]int{"order": t.Index},
				})
			if err != nil {
				return err
			}
			t.State = result
		}
		return nil
	}
	return orchestrator.Definition[conversation]{
		Name: "effects", Intents: orchestrator.Intents[conversation]{"work": {Run: work}},
	}
}

func newEffectActor(
	turns checkpoint.Store, runs snapshot.Store, effects ledger.Ledger, keep int,
) (actor[conversation], error) {
	bot, err := orchestrator.New(tenEffects(), turns,
		&orchestrator.Options{Snapshots: runs, Ledger: effects, KeepSnapshots: keep})
	return actor[conversation]{bot}, err
}

// commits returns an operation of as many commits as a turn's effects are. Every other row has a document of 4 KiB, as
// every other commit of an effect has. If all is set, each row has one.
func commits(all bool, insert func(ctx context.Context, document string) error) operation {
	states := prose(64)
	n := new(atomic.Int64)
	return func(ctx context.Context, _ int) error {
		first := int(n.Add(1))
		for i := range 2 * effectsEach {
			document := json.RawMessage(`{"order": 7}`)
			if all || i%2 == 1 {
				document = states[(first+i)%len(states)]
			}
			if err := insert(ctx, string(document)); err != nil {
				return err
			}
		}
		return nil
	}
}

// compareEffects measures turns with effects against the commits alone.
func (b *bench) compareEffects(
	ctx context.Context, where string, workers int, turns actor[conversation],
	insert func(ctx context.Context, document string) error, goal goal, between func(context.Context) error,
) error {
	rota := newRota(b.sessions, workers)
	return b.compete(ctx, contest{
		what: where + ", 10 effects", workers: workers,
		reference: subject{name: "20 bare commits of as much", op: commits(false, insert)},
		subjects: []subject{
			{name: "Execute", op: rota.on(turns.play), goal: goal},
			{name: "20 bare commits of 4 KiB each", op: commits(true, insert)},
		},
		between: between,
	})
}

// effectsPostgres measures which share of the disk's speed a turn keeps whose effects are all in the ledger.
func (b *bench) effectsPostgres(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		return b.postgresEffects(ctx, "PostgreSQL", pool, store, "", atLeast(0.9), atLeast(0.7))
	})
}

// effectsSlowDisk measures the same on a disk where a commit takes longer than the work around it.
func (b *bench) effectsSlowDisk(ctx context.Context) error {
	return b.withSlowDisk(ctx, func(pool *pgxpool.Pool, store *pgcheckpoint.Store, described string) error {
		return b.postgresEffects(ctx, "PostgreSQL, slow disk", pool, store, described, atLeast(1.1), atLeast(1.1))
	})
}

func (b *bench) postgresEffects(
	ctx context.Context, where string, pool *pgxpool.Pool, store *pgcheckpoint.Store, described string,
	alone, eight goal,
) error {
	runs, effects := pgsnapshot.New(pool, nil), pgledger.New(pool, nil)
	_, err := pool.Exec(ctx, runs.Schema()+effects.Schema()+`
		CREATE TABLE bare_effects (id text COLLATE "C" PRIMARY KEY, document jsonb) WITH (toast_tuple_target = 4080);
		ALTER TABLE bare_effects ALTER COLUMN document SET COMPRESSION lz4;`)
	if err != nil {
		return err
	}
	turns, err := newEffectActor(store, runs, effects, b.keep)
	if err != nil {
		return err
	}
	if err := errors.Join(turns.fillAll(ctx, b.sessions, 1), b.describe(ctx, pool, described)); err != nil {
		return err
	}
	insert := func(ctx context.Context, document string) error {
		_, err := pool.Exec(ctx, `INSERT INTO bare_effects VALUES ($1, $2)`, rand.Text(), document)
		return err
	}
	for _, c := range []struct {
		workers int
		goal    goal
	}{{1, alone}, {8, eight}} {
		err := b.compareEffects(ctx, where, c.workers, turns, insert, c.goal, func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `TRUNCATE bare_effects, holdfast_effects, holdfast_effect_fences`)
			return errors.Join(err, tidyTables(ctx, pool))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) effectsSQLite(ctx context.Context) error {
	return b.withSQLite(ctx, "effects.db", func(ours *sql.DB) error {
		return b.withSQLite(ctx, "commits.db", func(theirs *sql.DB) error {
			store, runs := sqlitecheckpoint.New(ours, nil), sqlitesnapshot.New(ours, nil)
			effects := sqliteledger.New(ours, nil)
			_, err1 := ours.ExecContext(ctx, store.Schema()+runs.Schema()+effects.Schema())
			_, err2 := theirs.ExecContext(ctx, `CREATE TABLE bare_effects (id TEXT PRIMARY KEY, document TEXT)`)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			bare, err1 := newBareInsert(ctx, theirs)
			turns, err2 := newEffectActor(store, runs, effects, b.keep)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if err := turns.fillAll(ctx, b.sessions, 1); err != nil {
				return err
			}
			between := func(ctx context.Context) error {
				_, err1 := ours.ExecContext(ctx, `DELETE FROM holdfast_effects; DELETE FROM holdfast_effect_fences`)
				_, err2 := theirs.ExecContext(ctx, `DELETE FROM bare_effects`)
				return errors.Join(err1, err2)
			}
			return b.compareEffects(ctx, "SQLite", 1, turns, bare.insert, atLeast(0.8), between)
		})
	})
}

// A bareInsert inserts a row with a statement that ends with the database.
type bareInsert struct{ prepared *sql.Stmt }

func newBareInsert(ctx context.Context, db *sql.DB) (bareInsert, error) {
	prepared, err := db.PrepareContext(ctx, `INSERT INTO bare_effects VALUES (?, ?)`)
	return bareInsert{prepared}, err
}

func (i bareInsert) insert(ctx context.Context, document string) error {
	_, err := i.prepared.ExecContext(ctx, rand.Text(), document)
	return err
}
