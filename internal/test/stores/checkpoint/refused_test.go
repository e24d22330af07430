package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// A refusal is a state in which a server refuses writes.
type refusal struct {
	begin  func(t *testing.T) (s store, refuse, mend func())
	calls  string // that are refused
	remedy string // in the errors
}

// readOnlyPostgres is a standby that is taken for the primary.
var readOnlyPostgres = refusal{func(t *testing.T) (s store, refuse, mend func()) {
	readOnly := false
	return newPG(t, pgcheckpoint.Options{}, func(c *pgxpool.Config) {
		c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			_, err := conn.Exec(ctx, fmt.Sprintf("SET default_transaction_read_only = %v", readOnly))
			return true, err
		}
	}), func() { readOnly = true }, func() { readOnly = false }
}, "Begin Renew Append Mark Delete", "read-only standby"}

func refusalsOfRedis() map[string]refusal {
	all := make(map[string]refusal)
	for _, r := range redistest.Refusals {
		all[r.Code] = refusal{func(t *testing.T) (s store, refuse, mend func()) {
			client, refuse := r.Begin(t)
			return redischeckpoint.New(client, nil), refuse, nil
		}, "Begin Append", r.Remedy}
	}
	return all
}

// If a server refuses a write, nothing was written, and the error says so.
func TestRefused(t *testing.T) {
	each(t, func(d database) bool { return d.refusals != nil }, func(t *testing.T, d database) {
		for name, r := range d.refusals {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, refuse, mend := r.begin(t)
				l := claim(t, s, "a").Lease
				refuse()
				for what, err := range try(t, s, l, r.calls) {
					if !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), r.remedy) {
						t.Errorf("%s: got %v, want %v that says %q", what, err, checkpoint.ErrRefused, r.remedy)
					}
				}
				if mend != nil {
					mend()
					settle(t, s, l, none, 0)
				}
			})
		}
	})
}

// A server that takes no write can be read, even if a listing would remove stale entries.
func TestRedisReadWhereRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		if refusal.Code != "READONLY" && refusal.Code != "NOREPLICAS" {
			continue
		}
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redisOn(client, "holdfast:", redischeckpoint.Options{})
			for _, session := range []string{"kept", "delivered", "gone"} {
				l := claim(t, s, session).Lease
				settle(t, s, l, owes, 0)
				if session == "delivered" {
					mark(t, s, l, checkpoint.Marks{Delivered: 1})
				}
			}
			check(t, client.Del(t.Context(), s.at("gone")).Err())
			refuse()
			if got := list(t, s, true); !slices.Equal(got, []string{"kept"}) {
				t.Errorf("owing: %q", got)
			}
			if got := list(t, s, false); !slices.Equal(got, []string{"delivered", "kept"}) {
				t.Errorf("sessions: %q", got)
			}
		})
	}
}

func TestRedisRefusedCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redischeckpoint.New(client, nil)
	l := claim(t, s, "a").Lease
	redistest.LoseSlot(t, client, "{bot/a}")
	err := s.Append(t.Context(), l, turn(0), none)
	want(t, err, checkpoint.ErrRefused)
	if !strings.Contains(err.Error(), "CLUSTERDOWN") {
		t.Errorf("got %v", err)
	}
}

// A refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRedisRefusedRepeat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{MinRetryBackoff: -1})
	s := redischeckpoint.New(client, nil)
	l := claim(t, s, "a").Lease
	settle(t, s, l, none, 0) // Redis has the scripts now
	other := redis.NewClient(client.Options())
	defer other.Close()
	other.AddHook(&redistest.Deaf{Err: redistest.Reply("LOADING Redis is loading the dataset in memory")})
	err := redischeckpoint.New(other, nil).Append(t.Context(), l, turn(1), none)
	if err == nil || errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("got %v, want an error that is not %v", err, checkpoint.ErrRefused)
	}
	must[checkpoint.Checkpoint](t)(checkpoint.Load(t.Context(), s, key("a"), 1))
}

// A database that cannot store every text is refused before anything is written to it.
func TestPostgresEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		s := pgOn(t, pgtest.PoolOn(t, server.Database(encoding)), pgcheckpoint.Options{TTL: time.Hour})
		for call, err := range try(t, s, stranger, "Claim Renew Held Head Load Sweep Raise Append Mark Delete") {
			if !errors.Is(err, pgtext.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, %s: %v, want %v", encoding, call, err, pgtext.ErrEncoding)
			}
		}
	}
}

// If tables or functions are missing, or a table lacks a column, the error names them and the remedy.
func TestPostgresSchemaMissing(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	for _, c := range []struct {
		prefix, spoil string
		functions     bool
	}{
		{"none_", "", false},
		{"no_such_schema.holdfast_", "", false},
		{
			"old_", "ALTER TABLE old_sessions DROP COLUMN summarized; ALTER TABLE old_turns DROP COLUMN version", false,
		},
		{"holdfast_", "", true},
		{"gone_", "DROP TABLE gone_sessions, gone_turns", true},
		{"no_such_schema.holdfast_", "", true},
	} {
		o := pgcheckpoint.Options{Prefix: c.prefix, Functions: c.functions}
		if c.spoil != "" {
			pgOn(t, p, o).exec(t, c.spoil)
		}
		lacks, remedy, calls := "sessions", "migrations.Up", "Claim Load Append Mark"
		if c.functions {
			lacks, remedy, calls = "session_claim_1", "Options.Functions", "Claim Renew Append Mark Delete"
		}
		for call, err := range try(t, pgcheckpoint.New(p, &o), stranger, calls) {
			if !errors.Is(err, checkpoint.ErrSchema) || !strings.Contains(err.Error(), c.prefix+lacks) ||
				!strings.Contains(err.Error(), remedy) {
				t.Errorf("%s, functions %t, %s: %v", c.prefix, c.functions, call, err)
			}
		}
	}
}

func TestPostgresPoolClosed(t *testing.T) {
	t.Parallel()
	s := newPG(t, pgcheckpoint.Options{})
	l := claim(t, s, "a").Lease
	s.pool.Close()
	for call, err := range try(t, s, l, "Claim Renew Load Append Mark Delete") {
		if err == nil || verdict(err) {
			t.Errorf("%s on a closed pool returns %v", call, err)
		}
	}
}

// If a server dies in the middle, the caller gets an error, and a repeat tells the outcome.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	s := pgOn(t, pgtest.PoolOn(t, server.URL), pgcheckpoint.Options{})
	l := claim(t, s, "a").Lease
	next := 0
	for range 3 {
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			server.Kill()
		}()
		err := appendUntilRefused(t, s, l, &next, turn)
		<-killed
		if verdict(err) {
			t.Errorf("a dead server is reported as %v", err)
		}
		if _, err := s.Claim(t.Context(), key("a"), request()); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Errorf("a claim without a server returns %v", err)
		}
		server.Restart()
		repeat(t, s, l, next)
		next++
	}
}

// appendUntilRefused settles turns, beginning with next, until an Append fails.
func appendUntilRefused(
	t *testing.T, s store, l checkpoint.Lease, next *int, turn func(int) checkpoint.Checkpoint,
) (err error) {
	t.Helper()
	for {
		err := s.Append(t.Context(), l, turn(*next), checkpoint.AppendOptions{Keep: checkpoint.KeepAll})
		if err != nil {
			return err
		}
		*next++
	}
}

// repeat settles a turn once the pool has noticed which of its connections are dead. All turns before are there.
func repeat(t *testing.T, s store, l checkpoint.Lease, n int) {
	t.Helper()
	for done := false; !done; {
		err := s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{Keep: checkpoint.KeepAll})
		if done = err == nil; t.Context().Err() != nil || verdict(err) {
			t.Fatal(err)
		}
	}
	got := kept(t, s)
	if slices.Reverse(got); len(got) != n+1 || got[0] != 0 || got[n] != n {
		t.Errorf("turns %d are kept, want %d", got, n+1)
	}
}

// A server that hangs costs no more than the caller's deadline.
func TestPostgresStopped(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	s := pgOn(t, pgtest.PoolOn(t, server.URL), pgcheckpoint.Options{})
	l := claim(t, s, "a").Lease
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, s.Append(ctx, l, turn(0), none), context.DeadlineExceeded)
	server.Continue()
	repeat(t, s, l, 0)
}

// A full disk never settles half a turn.
func TestPostgresDiskFull(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{TmpfsMB: 96})
	s := pgOn(t, pgtest.PoolOn(t, server.URL), pgcheckpoint.Options{})
	l := claim(t, s, "a").Lease
	server.FillDisk()
	next := 0
	err := appendUntilRefused(t, s, l, &next, noisy)
	if verdict(err) {
		t.Errorf("a full disk is reported as %v", err)
	}
	server.FreeDisk()
	repeat(t, s, l, next)
}

// While the server is away, errors come from the network. When it is back without its memory, every former owner is
// fenced.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	srv, client := redistest.Server(t, redis.Options{MaxRetries: -1, DialerRetries: 1})
	s := redischeckpoint.New(client, nil)
	l := claim(t, s, "a").Lease
	settle(t, s, l, none, 0)
	srv.Kill()
	for call, err := range try(t, s, l, "Claim Renew Append Mark Delete") {
		if _, ok := errors.AsType[*net.OpError](err); !ok {
			t.Errorf("%s: got %v, want an error of the network", call, err)
		}
	}
	srv.Restart()
	want(t, s.Append(t.Context(), l, turn(1), none), lock.ErrFenced)
	if c := claim(t, s, "a"); c.Born <= l.Fence.Epoch || c.Last != nil {
		t.Errorf("claimed %+v", c)
	}
}

// A Redis that lost its memory fences the owners of its sessions, and lists nothing.
func TestRedisFlushAll(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	for _, o := range []checkpoint.AppendOptions{none, owes} {
		first, later := claim(t, s, "first").Lease, claim(t, s, "later").Lease
		settle(t, s, later, o, 0)
		check(t, client.FlushAll(ctx).Err())
		want(t, s.Append(ctx, first, turn(0), o), lock.ErrFenced)
		want(t, s.Append(ctx, later, turn(1), o), lock.ErrFenced)
		want(t, s.Mark(ctx, later, checkpoint.Marks{Delivered: 1}), lock.ErrFenced)
		for _, owing := range []bool{false, true} {
			if ids := list(t, s, owing); len(ids) > 0 {
				t.Errorf("listed %q", ids)
			}
		}
		if keys := client.Keys(ctx, "*").Val(); len(keys) > 0 {
			t.Errorf("left: %q", keys)
		}
	}
}

// If ctx ends, the error says so, however the client reports it.
func TestRedisContextEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("shutting down")
	for name, o := range map[string]redis.Options{
		"client honours deadlines": {ContextTimeoutEnabled: true},
		"client times out":         {ReadTimeout: 200 * time.Millisecond, MaxRetries: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, client := redistest.Server(t, o)
			s := redischeckpoint.New(client, nil)
			l := claim(t, s, "a").Lease
			srv.Stop()
			defer srv.Continue()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			want(t, s.Append(ctx, l, turn(0), none), context.DeadlineExceeded)

			cancelled, stop := context.WithCancelCause(t.Context())
			stop(why)
			err := s.Mark(cancelled, l, checkpoint.Marks{})
			want(t, err, context.Canceled)
			want(t, err, why)
		})
	}
}

// At maxmemory a call that adds to a session is refused, and leaves no trace. A call that gives a session back, keeps
// it, takes it over or removes it passes. Otherwise there would be no way to make room.
func TestRedisMaxmemory(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	l := claim(t, s, "a").Lease
	settle(t, s, l, owes, 0, 1)
	unsettled := claim(t, s, "b").Lease
	redistest.Fill(t, client)

	before := redistest.Digest(t, client)
	want(t, try(t, s, l, "Begin")["Begin"], checkpoint.ErrRefused)
	want(t, s.Append(ctx, l, turn(2), checkpoint.AppendOptions{Keep: 1}), checkpoint.ErrRefused)
	want(t, s.Append(ctx, l, turn(2), checkpoint.AppendOptions{Release: true}), checkpoint.ErrRefused)
	want(t, s.Append(ctx, unsettled, turn(0), owes), checkpoint.ErrRefused)
	if after := redistest.Digest(t, client); after != before {
		t.Error("what was refused has left something")
	}

	settle(t, s, l, owes, 1) // a repeat is told
	if lost := renew(t, s, time.Hour, l, unsettled); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	for _, m := range []checkpoint.Marks{{Retry: time.Hour}, {Delivered: 1, Summarized: 1}, {Delivered: 2}} {
		mark(t, s, l, m)
	}
	l = claim(t, s, "a").Lease
	mark(t, s, l, release)
	l = claim(t, s, "a").Lease
	list(t, s, false)
	list(t, s, true)
	deleteAll(t, s, unsettled, l)
	if n := client.DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys are left: %q", n, client.Keys(ctx, "*").Val())
	}
}
