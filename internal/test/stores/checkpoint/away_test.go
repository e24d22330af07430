package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

func unreachablePostgres() map[string]func(*testing.T) checkpoint.Store {
	all := make(map[string]func(*testing.T) checkpoint.Store)
	for name, c := range pgtest.Unreachable {
		all[name] = func(t *testing.T) checkpoint.Store {
			return pgcheckpoint.New(pgtest.PoolOn(t, c.URL, c.Configure), nil)
		}
	}
	return all
}

func unreachableRedis() map[string]func(*testing.T) checkpoint.Store {
	all := make(map[string]func(*testing.T) checkpoint.Store)
	for name, o := range redistest.Unreachable {
		all[name] = func(t *testing.T) checkpoint.Store {
			client := redis.NewClient(&o)
			t.Cleanup(func() { client.Close() })
			return redischeckpoint.New(client, nil)
		}
	}
	return all
}

// A divided store on PostgreSQL cannot write some of its sessions: a trigger raises the error of Citus for a worker
// that is down. What only reads finds them.
type dividedPG struct{ pg }

const workerSQL = `
	CREATE TABLE down (session text PRIMARY KEY);
	CREATE FUNCTION reach() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM down WHERE session = OLD.session) THEN
			RAISE EXCEPTION 'connection to the remote node failed' USING ERRCODE = 'connection_failure';
		END IF;
		IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER reach BEFORE UPDATE OR DELETE ON {sessions} FOR EACH ROW EXECUTE FUNCTION reach();`

func newDividedPG(t *testing.T, o pgcheckpoint.Options) dividedPG {
	s := dividedPG{newPG(t, o)}
	s.exec(t, workerSQL)
	return s
}

// third returns every third of the sessions, from the second on.
func third(sessions []string) (some []string) {
	for i := 1; i < len(sessions); i += 3 {
		some = append(some, sessions[i])
	}
	return some
}

func (d dividedPG) TakeAway(ctx context.Context, _ string, sessions []string) ([]string, func(), error) {
	away := third(sessions)
	err := d.by(ctx, "INSERT INTO down SELECT unnest($1::text[])", away)
	return away, func() { _ = d.by(ctx, "DELETE FROM down") }, err
}

// A part of a store can be taken away. It returns a function that returns an empty store each time.
type (
	part       func(t *testing.T) newDivided
	newDivided = func(t *testing.T, ttl time.Duration) checkpointtest.DividedSweepingStore
)

func workerAway(o pgcheckpoint.Options) map[string]part {
	return map[string]part{"worker": func(*testing.T) newDivided {
		return func(t *testing.T, ttl time.Duration) checkpointtest.DividedSweepingStore {
			o.TTL = ttl
			return newDividedPG(t, o)
		}
	}}
}

// A divided store on SQLite cannot write some of its rows: a trigger refuses them. What only reads finds them.
type dividedLite struct{ lite }

func (d dividedLite) TakeAway(ctx context.Context, _ string, sessions []string) ([]string, func(), error) {
	away := third(sessions)
	for _, id := range away {
		if err := d.Spoil(ctx, "INSERT INTO down VALUES ('"+id+"')"); err != nil {
			return nil, nil, err
		}
	}
	return away, func() { _ = d.Spoil(ctx, "DELETE FROM down") }, nil
}

var rowsAway = map[string]part{"rows": func(*testing.T) newDivided {
	return func(t *testing.T, ttl time.Duration) checkpointtest.DividedSweepingStore {
		s := dividedLite{newLite(t, sqlitecheckpoint.Options{TTL: ttl})}
		check(t, s.Spoil(t.Context(), `
			CREATE TABLE down (session TEXT PRIMARY KEY);
			CREATE TRIGGER bad BEFORE UPDATE ON holdfast_sessions
			WHEN EXISTS (SELECT 1 FROM down WHERE session = OLD.session) BEGIN SELECT RAISE(ABORT, 'bad row'); END`))
		return s
	}
}}

// A divided store on Redis loses a node of its cluster.
type dividedRedis struct {
	rd
	*redistest.Divided
}

// A client that does not honour the end of ctx waits for its own timeouts, of three seconds each.
var nodesAway = map[string]part{
	"dead node":    nodeAway(redistest.Dead, redis.ClusterOptions{}),
	"stopped node": nodeAway(redistest.Stopped, redis.ClusterOptions{}),
	"stopped node, client honours deadlines": nodeAway(redistest.Stopped, redis.ClusterOptions{
		ContextTimeoutEnabled: true, ReadTimeout: time.Second,
	}),
}

func nodeAway(dead bool, o redis.ClusterOptions) part {
	return func(t *testing.T) newDivided {
		cluster := redistest.DividedCluster(t, dead, &o)
		n := 0
		return func(_ *testing.T, ttl time.Duration) checkpointtest.DividedSweepingStore {
			n++
			s := redisOn(cluster.Client, fmt.Sprintf("c%d:", n), redischeckpoint.Options{TTL: ttl})
			return dividedRedis{s, cluster}
		}
	}
}

// One bad row among many costs few round trips.
func TestPostgresRenewDivides(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDividedPG(t, o)
			var all []string
			var leases []checkpoint.Lease
			for i := range 256 {
				all = append(all, fmt.Sprintf("s%03d", i))
				leases = append(leases, claim(t, s, all[i]).Lease)
			}
			_, _, err := s.TakeAway(t.Context(), "bot", all[99:101])
			check(t, err)
			before := s.pool.Stat().AcquireCount()
			lost, err := s.Renew(t.Context(), time.Hour, leases)
			partial, is := errors.AsType[*checkpoint.RenewError](err)
			if !is || len(partial.Unknown) != 1 || partial.Unknown[0] != leases[100] || len(lost) > 0 {
				t.Fatalf("lost %v, error %v", lost, err)
			}
			if n := s.pool.Stat().AcquireCount() - before; n > 2*8+1 {
				t.Errorf("%d round trips for one of %d leases", n, len(leases))
			}
		})
	}
}
