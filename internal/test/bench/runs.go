package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A resumable player plays turns of two iterations that survive a crash.
type resumable struct {
	player
	runs   snapshot.Store
	settle snapshot.Settle // nil: Append, and Delete
}

// newResumable returns a resumable. If the stores can, it settles in one step.
func newResumable(p player, runs snapshot.Store) resumable {
	r := resumable{player: p, runs: runs}
	if j, ok := runs.(snapshot.Joiner); ok {
		r.settle = j.Join(p.store)
	}
	return r
}

// begun is the payload of a Begin. It has the run's input, and not the state that the session has.
const begun = `{"v": 1, "born": 1763757600000000, "signature": "` + signature +
	`", "input": {"text": "Where is my order?"}}`

// play claims a session, begins a run, saves it once, settles and deletes it. The engine does the same for such a turn.
func (p resumable) play(ctx context.Context, session string) error {
	c, err := p.claim(ctx, session)
	if err != nil {
		return err
	}
	turn := following(c.Last)
	state := p.states[turn%len(p.states)]
	r := snapshot.Run{
		Key: c.Key, ID: rand.Text(), Turn: turn, Attempt: 1, Status: snapshot.Running, Fence: c.Fence,
		Payload: json.RawMessage(begun),
	}
	found, err := p.runs.Begin(ctx, r)
	if err != nil || found != nil {
		return fmt.Errorf("run %v is in flight: %w", found, err)
	}
	r.Seq++
	r.Payload = state
	if err := p.runs.Save(ctx, r); err != nil {
		return err
	}
	cp := checkpoint.Checkpoint{
		Turn: turn, State: state, Route: []string{"refund"}, Signature: signature, Version: "1", RunID: r.ID,
	}
	o := checkpoint.AppendOptions{Keep: p.keep, Release: true}
	if p.settle != nil {
		_, err := p.settle(ctx, c.Lease, cp, o)
		return err
	}
	if err := p.store.Append(ctx, c.Lease, cp, o); err != nil {
		return err
	}
	return p.runs.Delete(ctx, r.Key, r.ID, r.Fence)
}

// A supervisor is the recipe for such a turn. It loads the newest row and the snapshot, upserts the snapshot four
// times, inserts and prunes. It makes eight round trips, and has nothing that keeps two processes apart.
type supervisor struct{ recipe }

const supervisorSchema = `
	CREATE TABLE warlock_supervisor_snapshots (
		run_id TEXT PRIMARY KEY,
		payload JSONB NOT NULL,
		saved_at TIMESTAMPTZ NOT NULL DEFAULT now()
	);
	CREATE INDEX idx_warlock_supervisor_snapshots_saved_at ON warlock_supervisor_snapshots (saved_at);`

const (
	supervisorLoad   = `SELECT payload, saved_at FROM warlock_supervisor_snapshots WHERE run_id = $1`
	supervisorUpsert = `
		INSERT INTO warlock_supervisor_snapshots (run_id, payload, saved_at)
		VALUES ($1, $2, now())
		ON CONFLICT (run_id) DO UPDATE SET payload = excluded.payload, saved_at = excluded.saved_at`
	upserts = 4
)

func (s supervisor) play(ctx context.Context, session string) error {
	turn, err := s.load(ctx, session)
	if err != nil {
		return err
	}
	run := fmt.Sprintf("%s:%d", session, turn+1)
	state := string(s.states[(turn+1)%len(s.states)])
	rows, err := s.pool.Query(ctx, supervisorLoad, run)
	if err != nil {
		return err
	}
	rows.Close()
	for range upserts {
		if _, err := s.pool.Exec(ctx, supervisorUpsert, run, state); err != nil {
			return err
		}
	}
	return s.settle(ctx, session, turn+1)
}

func (b *bench) postgresRuns(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		states := prose(64)
		runs := pgsnapshot.New(pool, nil)
		theirs := supervisor{recipe{pool, states, b.keep}}
		ours := newResumable(player{store, states, b.keep, ""}, runs)
		_, err := pool.Exec(ctx, runs.Schema()+supervisorSchema)
		err = errors.Join(err, theirs.fillAll(ctx, b.sessions, b.keep+5), ours.fillAll(ctx, b.sessions, b.keep+5),
			b.describe(ctx, pool, ""))
		if err != nil {
			return err
		}
		goals := map[int]goal{1: atLeast(1.6), 8: atLeast(1.6), mostWorkers: atLeast(1.5)}
		for _, workers := range workerCounts {
			rota := newRota(b.sessions, workers)
			err := b.compete(ctx, contest{
				what: "PostgreSQL, two iterations", workers: workers,
				reference: subject{name: "eight round trips", op: rota.on(theirs.play)},
				subjects: []subject{
					{name: "Claim, Begin, Save, Settle", op: rota.on(ours.play), goal: goals[workers]},
				},
				between: func(ctx context.Context) error { return tidyRuns(ctx, pool) },
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// tidyRuns is tidy for the tables of this suite.
func tidyRuns(ctx context.Context, pool *pgxpool.Pool) error {
	for _, table := range []string{
		"warlock_orchestrator_sessions", "warlock_supervisor_snapshots", "holdfast_sessions", "holdfast_turns",
		"holdfast_runs",
	} {
		if _, err := pool.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return nil
}

func (b *bench) redisRuns(ctx context.Context) error {
	return b.withRedis(ctx, "always", func(client *redis.Client, store *redischeckpoint.Store) error {
		states := prose(64)
		ours := newResumable(player{store, states, b.keep, ""}, redissnapshot.New(client, nil))
		if err := ours.fillAll(ctx, b.sessions, b.keep+5); err != nil {
			return err
		}
		rota := newRota(b.sessions, 1)
		return b.compete(ctx, contest{
			what: "Redis, two iterations", workers: 1,
			reference: subject{name: "eight plain commands", op: eightCommands(client, states)},
			subjects:  []subject{{name: "Claim, Begin, Save, Append, Delete", op: rota.on(ours.play)}},
		})
	})
}

// eightCommands reads and writes as often, and as much, as the recipe does. Each document has a key.
func eightCommands(client *redis.Client, states []json.RawMessage) operation {
	n := 0
	return func(ctx context.Context, _ int) error {
		n++
		state := []byte(states[n%len(states)])
		var errs []error
		for _, key := range []string{"plain:session", "plain:run"} {
			if err := client.Get(ctx, key).Err(); !errors.Is(err, redis.Nil) {
				errs = append(errs, err)
			}
		}
		for range upserts {
			errs = append(errs, client.Set(ctx, "plain:run", state, 0).Err())
		}
		errs = append(errs, client.Set(ctx, fmt.Sprintf("plain:turn:%d", n%50), state, 0).Err(),
			client.Del(ctx, "plain:run").Err())
		return errors.Join(errs...)
	}
}
