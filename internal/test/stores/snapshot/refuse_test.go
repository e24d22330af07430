package snapshot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// If a database lacks the tables or the functions, a store says so and what to do.
func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	s := pgsnapshot.New(p, &pgsnapshot.Options{Prefix: "none_"})
	errs := writes(t.Context(), s)
	_, errs["Sweep"] = s.Sweep(t.Context(), 0)
	wantAll(t, errs, snapshot.ErrSchema, "none_runs")

	pgOn(t, p, pgsnapshot.Options{Prefix: "gone_", Functions: true})
	pgtest.Exec(t, p, "DROP TABLE gone_runs, gone_run_parts")
	for _, prefix := range []string{"holdfast_", "gone_", "no_such_schema.holdfast_"} {
		s := pgsnapshot.New(p, &pgsnapshot.Options{Prefix: prefix, Functions: true})
		errs := writes(t.Context(), s)
		wantAll(t, errs, snapshot.ErrSchema, prefix+"run_begin_1")
		wantAll(t, errs, snapshot.ErrSchema, "Options.Functions")
	}
}

// The schema may be run again beside readers, writers and a vacuum. It waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	_, p, s := private(t, nil)
	tx, err := p.Begin(t.Context())
	check(t, err)
	defer tx.Rollback(t.Context())
	// A vacuum takes this lock. A writer takes a weaker one.
	_, err = tx.Exec(t.Context(), "LOCK TABLE holdfast_runs, holdfast_run_parts IN SHARE UPDATE EXCLUSIVE MODE")
	check(t, err)
	pgtest.Exec(t, p, "SET statement_timeout = '5s'; "+s.Schema())
}

// A standby that is taken for the primary writes nothing, and says that it is a standby.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	wantAll(t, writes(t.Context(), pgsnapshot.New(p, nil)), snapshot.ErrRefused, "read-only standby")
}

// A database that cannot store every text is refused before anything is written to it.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		s := pgOn(t, pgtest.PoolOn(t, server.Database(encoding)), pgsnapshot.Options{})
		errs := calls(t.Context(), s)
		_, errs["Sweep"] = s.Sweep(t.Context(), 1)
		_, errs["Raise"] = s.Raise(t.Context(), time.Time{})
		wantAll(t, errs, pgsnapshot.ErrEncoding, encoding+", which")
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	redistest.Prefixes(t, func(prefix string) { redissnapshot.New(nil, &redissnapshot.Options{Prefix: prefix}) })
	if got := redissnapshot.New(nil, nil).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}

// A write that a server refuses is not done, and its error says so.
func TestRefused(t *testing.T) {
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
func TestReadWhereRefused(t *testing.T) {
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

func TestRefusedCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redissnapshot.New(client, nil)
	r := begin(t, s, run("a"))
	redistest.LoseSlot(t, client, "{bot/a}")
	wantAll(t, map[string]error{"Save": s.Save(t.Context(), next(r))}, snapshot.ErrRefused, "CLUSTERDOWN")
}

// The refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRefusedRepeat(t *testing.T) {
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
func TestEviction(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	ctx := t.Context()
	s := redissnapshot.New(client, nil)
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		check(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		wantAll(t, calls(ctx, s), redissnapshot.ErrEviction, policy)
		if n := client.DBSize(ctx).Val(); n != 0 {
			t.Errorf("%d keys", n)
		}
	}
	check(t, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	wantAll(t, calls(ctx, s), nil, "")
	check(t, client.ConfigResetStat(ctx).Err())
	// All calls have a fence that is spent.
	for call, err := range calls(ctx, s) {
		if err != nil && errors.Is(err, redissnapshot.ErrEviction) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := redistest.Stats(t, client)["cmdstat_info"]; n > 0 {
		t.Errorf("a store that knows its server asks %d times more", n)
	}
}

// A server that does not tell its policy is accepted.
func TestEvictionUntold(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	mute := redistest.As(t, client, strings.Fields("on >secret ~* +@all -info"))
	wantAll(t, calls(t.Context(), redissnapshot.New(mute, nil)), nil, "")
}

// If one node of a cluster evicts, the store refuses the cluster.
func TestEvictionCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	ctx := t.Context()
	var mu sync.Mutex // protects following variable
	var nodes []*redis.Client
	check(t, client.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, c)
		return nil
	}))
	s := redissnapshot.New(client, nil)
	check(t, nodes[0].ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err())
	_, err := s.Begin(ctx, run("a"))
	want(t, err, redissnapshot.ErrEviction)
	check(t, nodes[0].ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	begin(t, s, run("a"))
}

// At maxmemory a call that adds to a run is refused, and leaves no trace. A call that adopts, lists or deletes a run
// passes. Otherwise it would be impossible to make room.
func TestMaxmemory(t *testing.T) {
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
