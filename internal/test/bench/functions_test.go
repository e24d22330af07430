package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/faulttest"
	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// The functions that are measured do all of what the statements do.
func TestFunctions(t *testing.T) {
	t.Parallel()
	t.Run("checkpoint", func(t *testing.T) {
		t.Parallel()
		checkpointtest.Run(t, newCheckpointFunctions)
	})
	t.Run("snapshot", func(t *testing.T) {
		t.Parallel()
		snapshottest.Run(t, newRunFunctions)
	})
	t.Run("damaged checkpoint", func(t *testing.T) {
		t.Parallel()
		checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
			return spoiledCheckpoints{newCheckpointFunctions(t).(checkpointFunctions)}
		})
	})
	t.Run("damaged snapshot", func(t *testing.T) {
		t.Parallel()
		snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore {
			return spoiledRuns{newRunFunctions(t).(runFunctions)}
		})
	})
}

// spoiledCheckpoints damages sessions by hand.
type spoiledCheckpoints struct{ checkpointFunctions }

func (s spoiledCheckpoints) DamageHead(ctx context.Context, k checkpoint.Key) error {
	return s.hand(ctx, "UPDATE holdfast_sessions SET born = 0 WHERE orchestrator = $1 AND session = $2", k)
}

func (s spoiledCheckpoints) LoseHead(ctx context.Context, k checkpoint.Key) error {
	return s.hand(ctx, "DELETE FROM holdfast_sessions WHERE orchestrator = $1 AND session = $2", k)
}

func (s spoiledCheckpoints) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	return s.hand(ctx, "UPDATE holdfast_turns SET run_id = '' WHERE orchestrator = $1 AND session = $2 AND turn = $3",
		k, turn)
}

func (s spoiledCheckpoints) hand(ctx context.Context, sql string, k checkpoint.Key, more ...any) error {
	_, err := s.db.Exec(ctx, sql, append([]any{k.Orchestrator, k.Session}, more...)...)
	return err
}

// spoiledRuns damages runs by hand.
type spoiledRuns struct{ runFunctions }

func (s spoiledRuns) Damage(ctx context.Context, k snapshot.Key) error {
	_, err := s.db.Exec(ctx, "UPDATE holdfast_runs SET id = '' WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func TestFunctionsUnderFaults(t *testing.T) {
	faulttest.CheckpointModel(t, newCheckpointFunctions)
	faulttest.CheckpointHistories(t, newCheckpointFunctions, faulttest.Histories())
	faulttest.SnapshotModel(t, newRunFunctions)
	faulttest.RacingBegins(t, newRunFunctions, 100)
}

// No lock keeps births and deletes apart. A claim that waits for another must not begin the next life with an epoch of
// before, if the session is taken over and deleted meanwhile.
func TestFunctionsBirthAfterDelete(t *testing.T) {
	t.Parallel()
	pool := withFunctions(t, testenv.Postgres(t))
	k := checkpoint.Key{Orchestrator: botName, Session: "session"}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	claim := func(from lock.Fence, nonce string) (f lock.Fence) {
		t.Helper()
		err := tx.QueryRow(t.Context(), `SELECT epoch, nonce FROM holdfast_claim($1, $2, $3, 'test', 1000000, $4, $5, '')`,
			k.Orchestrator, k.Session, nonce, from.Epoch, from.Nonce).Scan(&f.Epoch, &f.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := claim(lock.Fence{}, "first")
	born := make(chan checkpoint.Claimed)
	go func() {
		defer close(born)
		c, err := checkpointFunctions{pgcheckpoint.New(pool, nil), pgstate.New(pool)}.Claim(t.Context(), k,
			checkpoint.ClaimRequest{Owner: "test", Nonce: "late", TTL: leaseTTL})
		if err != nil {
			t.Error(err)
		}
		born <- c
	}()
	for waits := 0; waits == 0; {
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE query LIKE '%holdfast_claim%' AND wait_event = 'transactionid' AND $1::integer = ANY(pg_blocking_pids(pid))`,
			tx.Conn().PgConn().PID()).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	second := claim(first, "second")
	var deleted bool
	err = tx.QueryRow(t.Context(), deleteCall, k.Orchestrator, k.Session, second.Epoch, second.Nonce).Scan(&deleted)
	if err != nil || !deleted {
		t.Fatalf("deleted: %v, %v", deleted, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := <-born; c.Fence.Epoch <= second.Epoch || c.Born != c.Fence.Epoch {
		t.Errorf("born %d with epoch %d, after a life with epoch %d", c.Born, c.Fence.Epoch, second.Epoch)
	}
}

// A function keeps the plans that it has made while there was little. Where nothing is known of the tables, these plans
// must serve a long session too.
func TestFunctionsWithoutStatistics(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Settings: map[string]string{"autovacuum": "off"}})
	config, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1 // it keeps its plans
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := checkpointFunctions{pgcheckpoint.New(withFunctions(t, pool), nil), pgstate.New(pool)}
	states, asked := prose(1), 0
	settle := func(session string, turns int) {
		for range turns {
			asked++
			r := checkpoint.ClaimRequest{Owner: "test", Nonce: fmt.Sprint(asked), TTL: leaseTTL, RequestID: fmt.Sprint(asked)}
			c, err := store.Claim(t.Context(), checkpoint.Key{Orchestrator: botName, Session: session}, r)
			if err != nil {
				t.Fatal(err)
			}
			err = store.Append(t.Context(), c.Lease, checkpoint.Checkpoint{
				Turn: following(c.Last), State: states[0], RequestID: r.RequestID, RunID: r.RequestID,
			}, checkpoint.AppendOptions{Keep: 200, Release: true})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	blocks := func() (n int) {
		for _, sql := range []string{
			"SELECT count(pg_stat_force_next_flush())",
			"SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int FROM pg_statio_user_tables",
		} {
			if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for i := range 30 {
		settle(sessionName(i), 20)
	}
	settle("long", 250)
	for _, known := range []string{"nothing", "statistics"} {
		before := blocks()
		settle("long", 50)
		if got := (blocks() - before) / 50; got > 40 {
			t.Errorf("with %s known a turn touches %d blocks of the tables", known, got)
		} else {
			t.Logf("with %s known: %d blocks a turn", known, got)
		}
		if _, err := pool.Exec(t.Context(), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
}

func newCheckpointFunctions(t *testing.T) checkpoint.Store {
	pool := withFunctions(t, testenv.Postgres(t))
	return checkpointFunctions{pgcheckpoint.New(pool, nil), pgstate.New(pool)}
}

func newRunFunctions(t *testing.T) snapshot.Store {
	pool := withFunctions(t, testenv.Postgres(t))
	return runFunctions{pgsnapshot.New(pool, nil), pgstate.New(pool)}
}

func withFunctions(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	for _, sql := range []string{pgcheckpoint.New(pool, nil).Schema(), pgsnapshot.New(pool, nil).Schema(), functionsSQL} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
