package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
)

// A traffic is writers, each in a session of its own. They note what Append has answered.
type traffic struct {
	t     *testing.T
	store transcript.Store
	told  [4][]appended
}

// run appends until each writer has had an error, or n answers. A writer repeats what has failed, with the same id.
func (r *traffic) run(what string, n int, enough func(w, answers int)) {
	var all sync.WaitGroup
	for w := range r.told {
		all.Go(func() {
			for i := range n {
				id := fmt.Sprint(what, " ", i)
				span, err := r.store.Append(r.t.Context(), key(fmt.Sprint("s", w)), id, append(said(id), said(id)...))
				if err != nil {
					return
				}
				r.told[w] = append(r.told[w], appended{id, span})
				enough(w, i+1)
			}
		})
	}
	all.Wait()
}

// judge reads each transcript, which must be a beginning of what was answered. It returns how many entries are missing.
func (r *traffic) judge() (lost int) {
	r.t.Helper()
	for w := range r.told {
		session := fmt.Sprint("s", w)
		got, err := read(r.t.Context(), r.store, session, span(1, transcript.MaxNumber))
		check(r.t, err)
		if len(got)%2 != 0 {
			r.t.Errorf("session %s has a part of an entry", session)
		}
		for i, a := range r.told[w] {
			if len(got) < 2*i+2 {
				lost++
			} else if got[2*i] != a.ID || got[2*i+1] != a.ID {
				r.t.Errorf("entry %s is %q", a.ID, got[2*i:2*i+2])
			}
		}
	}
	return lost
}

// killed runs traffic, and kills the server in the midst of it, when each writer has had some answers.
func (r *traffic) killed(kill func()) {
	r.t.Helper()
	var ready atomic.Int64
	var done sync.WaitGroup
	r.run("before", 1_000_000, func(_, answers int) {
		if answers == 30 && ready.Add(1) == int64(len(r.told)) {
			done.Go(kill)
		}
	})
	done.Wait()
}

// A server that is killed in the midst of Appends has all that it has answered: PostgreSQL always, and Redis if it
// syncs its file at each write. A repeat finds its entry, and new ones follow.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (*testenv.Server, transcript.Store){
		"postgres": func(t *testing.T) (*testenv.Server, transcript.Store) {
			server, _, s := onPostgres.Private(t, nil)
			return server, s
		},
		"redis": func(t *testing.T) (*testenv.Server, transcript.Store) {
			server := testenv.StartRedis(t, &testenv.Options{Durable: true})
			o, err := redis.ParseURL(server.URL)
			check(t, err)
			o.MaxRetries = -1
			client := redis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			return server, onRedis.New(client, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := open(t)
			r := &traffic{t: t, store: s}
			r.killed(server.Kill)
			server.Restart()
			// The loop ends when the pool has noticed which of its connections are dead.
			for err := errors.New("not tried"); err != nil; {
				_, err = s.Append(t.Context(), key("awake"), "a", said("a"))
				check(t, t.Context().Err())
			}
			if lost := r.judge(); lost > 0 {
				t.Errorf("%d entries are lost that were answered", lost)
			}
			for w, told := range r.told {
				session := fmt.Sprint("s", w)
				// The last call had no answer.
				id, next := fmt.Sprint("before ", len(told)), told[len(told)-1].Span.Through+1
				for range 2 {
					got, err := s.Append(t.Context(), key(session), id, append(said(id), said(id)...))
					if err != nil || got != span(next, next+1) {
						t.Errorf("the repeat has the numbers %v, want %d on: %v", got, next, err)
					}
				}
				if got := say(t, s, session, "after"); got != span(next+2, next+2) {
					t.Errorf("the next entry has the numbers %v", got)
				}
			}
		})
	}
}

// A master is killed under traffic, and its replica is promoted, which lacks what came last. Each transcript is whole
// up to there. What is appended then gets the numbers of what is lost. After Raise it does not, also in a session that
// is lost whole.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	pair := testenv.StartRedisPair(t, nil)
	var at string // the address of the master
	send := func(server *testenv.Server) {
		o, err := redis.ParseURL(server.URL)
		check(t, err)
		at = o.Addr
	}
	send(pair.Master)
	client := redis.NewClient(&redis.Options{
		Addr: "192.0.2.1:1", DialTimeout: time.Second, MaxRetries: -1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		},
	})
	defer client.Close()
	s := onRedis.New(client, "")
	r := &traffic{t: t, store: s}
	r.run("kept", 10, func(int, int) {})
	if n := client.Wait(t.Context(), 1, 10*time.Second).Val(); n != 1 {
		t.Fatal("the replica does not follow")
	}
	pair.Cut()
	say(t, s, "lost", "a", "b")
	r.killed(pair.Master.Kill)
	pair.Promote()
	send(pair.Replica)
	if lost := r.judge(); lost < 4*30 {
		t.Errorf("%d entries are lost: this test cannot tell", lost)
	}
	newest := r.told[0][len(r.told[0])-1].Span.Through
	if got := say(t, s, "s0", "again"); got.From > newest {
		t.Errorf("without Raise an entry has the number %d, and none above %d was expected", got.From, newest)
	}
	check(t, s.(transcript.Raiser).Raise(t.Context()))
	for _, session := range []string{"s0", "s1", "lost"} {
		if got := say(t, s, session, "after"); got.From < 1<<40 {
			t.Errorf("session %s: after Raise an entry has the number %d", session, got.From)
		}
	}
	if got := there(t.Context(), s, "lost"); len(got) != 1 {
		t.Errorf("what is lost reads as %q", got)
	}
}

// A dump of PostgreSQL is put back, which lacks what was appended since.
func TestPostgresRestored(t *testing.T) {
	t.Parallel()
	server, _, s := onPostgres.Private(t, nil)
	say(t, s, "known", "a")
	restore := server.Dump()
	say(t, s, "known", "b", "c")
	say(t, s, "unknown", "b", "c")
	restored := onPostgres.New(pgtest.PoolOn(t, restore()), "")
	check(t, restored.(transcript.Raiser).Raise(t.Context()))
	for _, session := range []string{"known", "unknown"} {
		if got := say(t, restored, session, "d"); got.From < 1<<40 {
			t.Errorf("session %s: an entry has the number %d", session, got.From)
		}
	}
	if got := heard(t, restored, "known"); got != "a" {
		t.Errorf("there is %q", got)
	}
}

// The error of a call shows the end of ctx, also if the server does not answer.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("shutting down")
	for name, open := range map[string]func(t *testing.T) (*testenv.Server, transcript.Store){
		"postgres": func(t *testing.T) (*testenv.Server, transcript.Store) {
			server, _, s := onPostgres.Private(t, nil)
			return server, s
		},
		"redis": func(t *testing.T) (*testenv.Server, transcript.Store) {
			server, client := redistest.Server(t, redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1})
			return server, onRedis.New(client, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := open(t)
			say(t, s, "s", "a")
			server.Stop()
			defer server.Continue()
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
			defer cancel()
			for call, err := range calls(ctx, s) {
				if !errors.Is(err, why) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}
