package snapshot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// onPG has the tests of any store on PostgreSQL.
var onPG = pgtest.Kind[*pgsnapshot.Store]{
	New: func(db pgtest.DB, prefix string) *pgsnapshot.Store {
		return pgsnapshot.New(db, &pgsnapshot.Options{Prefix: prefix})
	},
	Suite: func(t *testing.T, newStore func(t *testing.T) *pgsnapshot.Store) {
		snapshottest.Run(t, func(t *testing.T) snapshot.Store { return newStore(t) })
	},
	Fill: func(t *testing.T, s *pgsnapshot.Store) { begin(t, s, run("filled")) },
	Read: func(t *testing.T, s *pgsnapshot.Store) string { return strings.Join(listed(t, s, ""), " ") },
	Calls: func(ctx context.Context, s *pgsnapshot.Store) map[string]error {
		errs := calls(ctx, s)
		_, errs["Sweep"] = s.Sweep(ctx, 0)
		_, errs["Raise"] = s.Raise(ctx, time.Time{})
		return errs
	},
	Writes: []string{"Begin", "Adopt", "Save", "Delete", "Sweep", "Raise"},
	Tables: []string{"runs", "run_parts"}, Schema: snapshot.ErrSchema, Refused: snapshot.ErrRefused,
}

func TestPostgresSchemaMissing(t *testing.T) { onPG.TestSchemaMissing(t) }

// If a database lacks the tables or the functions, a store that calls functions says so and what to do.
func TestFunctionsMissing(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	pgOn(t, p, pgsnapshot.Options{Prefix: "gone_", Functions: true})
	pgtest.Exec(t, p, "DROP TABLE gone_runs, gone_run_parts")
	for _, prefix := range []string{"holdfast_", "gone_", "no_such_schema.holdfast_"} {
		s := pgsnapshot.New(p, &pgsnapshot.Options{Prefix: prefix, Functions: true})
		errs := writes(t.Context(), s)
		wantAll(t, errs, snapshot.ErrSchema, prefix+"run_begin_1")
		wantAll(t, errs, snapshot.ErrSchema, "Options.Functions")
	}
}

func TestPostgresSchemaAgain(t *testing.T) { onPG.TestSchemaAgain(t) }

func TestPostgresReadOnly(t *testing.T) { onPG.TestReadOnly(t) }

func TestPostgresEncoding(t *testing.T) { onPG.TestEncoding(t) }

func TestRedisPrefix(t *testing.T) {
	t.Parallel()
	redistest.Prefixes(t, func(prefix string) { redissnapshot.New(nil, &redissnapshot.Options{Prefix: prefix}) })
}

// A write that a server refuses is not done, and its error says so.
func TestRedisRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redissnapshot.New(client, nil)
			r := begin(t, s, run("a"))
			refuse()
			_, began := s.Begin(t.Context(), run("b"))
			errs := map[string]error{"Begin": began, "Save": s.Save(t.Context(), next(r))}
			wantAll(t, errs, snapshot.ErrRefused, refusal.Remedy)
		})
	}
}

// A server that takes no write can be read, also if a listing would remove stale entries.
func TestRedisReadWhereRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		if refusal.Code != "READONLY" && refusal.Code != "NOREPLICAS" {
			continue
		}
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redissnapshot.New(client, nil)
			begin(t, s, run("b"))
			check(t, remove(t.Context(), s, begin(t, s, run("a"))))
			refuse()
			if got := listed(t, s, ""); !slices.Equal(got, []string{"run-of-b"}) {
				t.Errorf("listed %q", got)
			}
		})
	}
}

func TestRedisRefusedCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redissnapshot.New(client, nil)
	r := begin(t, s, run("a"))
	redistest.LoseSlot(t, client, "{bot/a}")
	wantAll(t, map[string]error{"Save": s.Save(t.Context(), next(r))}, snapshot.ErrRefused, "CLUSTERDOWN")
}

// The refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRedisRefusedRepeat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{MinRetryBackoff: -1})
	s := redissnapshot.New(client, nil)
	r := begin(t, s, run("a"))
	check(t, s.Save(t.Context(), step(r, 1))) // Redis has the script now
	other := redis.NewClient(client.Options())
	defer other.Close()
	other.AddHook(&redistest.Deaf{Err: redistest.Reply("READONLY You can't write against a read only replica.")})
	err := redissnapshot.New(other, nil).Save(t.Context(), step(r, 2))
	if err == nil || errors.Is(err, snapshot.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("got %v, want an error that is not %v", err, snapshot.ErrRefused)
	}
	if got, want := inFlight(t, s, "a"), timeless(step(r, 2)); got != want {
		t.Errorf("%s is in flight, want %s", got, want)
	}
}

// A server that evicts is refused until it is configured well. The store writes nothing to it before.
func TestRedisEviction(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	ctx := t.Context()
	s := redissnapshot.New(client, nil)
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		check(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		wantAll(t, calls(ctx, s), redisstore.ErrEviction, policy)
		if n := client.DBSize(ctx).Val(); n != 0 {
			t.Errorf("%d keys", n)
		}
	}
	check(t, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	wantAll(t, calls(ctx, s), nil, "")
	check(t, client.ConfigResetStat(ctx).Err())
	// All calls have a fence that is spent.
	for call, err := range calls(ctx, s) {
		if err != nil && errors.Is(err, redisstore.ErrEviction) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := redistest.Stats(t, client)["cmdstat_info"]; n > 0 {
		t.Errorf("a store that knows its server asks %d times more", n)
	}
}

// A server that does not tell its policy is accepted.
func TestRedisEvictionUntold(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	mute := redistest.As(t, client, strings.Fields("on >secret ~* +@all -info"))
	wantAll(t, calls(t.Context(), redissnapshot.New(mute, nil)), nil, "")
}

// If one node of a cluster evicts, the store refuses the cluster.
func TestRedisEvictionCluster(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	one := redis.NewClient(&redis.Options{Addr: nodes.Addrs[0]})
	defer one.Close()
	ctx := t.Context()
	s := redissnapshot.New(client, nil)
	check(t, one.ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err())
	_, err := s.Begin(ctx, run("a"))
	want(t, err, redisstore.ErrEviction)
	check(t, one.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	begin(t, s, run("a"))
}

// At maxmemory a call that adds to a run is refused, and leaves no trace. A call that adopts, lists or deletes a run
// passes. Otherwise it would be impossible to make room.
func TestRedisMaxmemory(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	a, b, _, over := begin(t, s, run("a")), begin(t, s, run("b")), begin(t, s, run("c")), begin(t, s, run("over"))
	check(t, remove(ctx, s, over)) // the run's entry in the index stays for a while
	redistest.Fill(t, client)

	before := redistest.Digest(t, client)
	_, err := redissnapshot.New(client, nil).Begin(ctx, runAs("new", "run", 2))
	want(t, err, snapshot.ErrRefused)
	want(t, s.Save(ctx, adding(a, "x")), snapshot.ErrRefused)
	want(t, s.Save(ctx, next(a)), snapshot.ErrRefused)
	if after := redistest.Digest(t, client); after != before {
		t.Error("what was refused has left something")
	}
	_, err = s.Begin(ctx, runAs("over", "next", 2))
	want(t, err, snapshot.ErrRefused)

	if found, err := s.Begin(ctx, runAs("a", "other", 2)); err != nil || found == nil {
		t.Errorf("found %v, %v", found, err)
	}
	check(t, take(ctx, s, "a", 3))
	want(t, take(ctx, s, "over", 3), snapshot.ErrNotFound)
	want(t, take(ctx, s, "new", 3), snapshot.ErrNotFound)
	check(t, s.Delete(ctx, a.Key, a.ID, fence(3)))
	check(t, remove(ctx, s, b))
	if left := listed(t, s, ""); !slices.Equal(left, []string{"run-of-c"}) {
		t.Errorf("%q are left", left)
	}
}
