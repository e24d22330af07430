package bootdrain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The primary loses its standbys, goes on for a while, and is killed. Then a standby is promoted. All this happens
// under traffic. With synchronous replication, each acknowledged turn is kept, and none settles twice.
func TestFailover(t *testing.T) {
	rounds := 1
	if soak() {
		rounds = 5
	}
	for n := range rounds {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := testenv.StartReplicated(t, true, nil)
			f := newTraffic(t, r)
			f.wait(func() bool { return f.acks >= 100 })
			r.StopSending()
			failed := f.count(func() int { return f.failures })
			f.wait(func() bool { return f.failures >= failed+60 })
			promoted := r.Failover()
			acks := f.count(func() int { return f.acks })
			f.wait(func() bool { return f.acks >= acks+100 })
			f.stop()
			f.judge(promoted)
		})
	}
}

// heard is a state that remembers the request ids of its turns, in order.
type heard struct{ Requests []string }

// A traffic is two processes, whose callers repeat each input until it is acknowledged.
type traffic struct {
	t    *testing.T
	stop func()

	changed  *sync.Cond
	mu       sync.Mutex // protects following fields
	acks     int
	failures int
	told     map[string][]string // request ids, by session
}

const failoverPatience = 500 * time.Millisecond

func newTraffic(t *testing.T, r *testenv.Replicated) *traffic {
	f := &traffic{t: t, told: make(map[string][]string)}
	f.changed = sync.NewCond(&f.mu)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, child := range []string{"a", "b"} {
		p := anyOf(t, r)
		checkpoints, snapshots := pgcheckpoint.New(p, nil), pgsnapshot.New(p, nil)
		if _, err := p.Exec(ctx, checkpoints.Schema()+snapshots.Schema()); err != nil {
			t.Fatal(err)
		}
		recording, plain := listener(t, checkpoints, snapshots), listener(t, checkpoints, nil)
		all.Go(func() { _ = bootdrain.Watch(ctx, recording, &bootdrain.Options{Every: time.Second, Logger: quiet}) })
		for i := range 4 {
			all.Go(func() { f.call(ctx, recording, fmt.Sprintf("recorded %d", i), child) })
			all.Go(func() { f.call(ctx, plain, fmt.Sprintf("plain %d", i), child) })
		}
	}
	f.stop = func() { cancel(); all.Wait() }
	t.Cleanup(f.stop)
	return f
}

// anyOf opens a pool on the server of r that accepts writes.
func anyOf(t *testing.T, r *testenv.Replicated) *pgxpool.Pool {
	t.Helper()
	var hosts []string
	for _, s := range append(r.Standbys, r.Server) {
		_, rest, _ := strings.Cut(s.URL, "@")
		host, _, _ := strings.Cut(rest, "/")
		hosts = append(hosts, host)
	}
	p, err := pgxpool.New(t.Context(), "postgres://postgres@"+strings.Join(hosts, ",")+
		"/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=1&pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func listener(t *testing.T, c checkpoint.Store, s snapshot.Store) *orchestrator.Orchestrator[heard] {
	t.Helper()
	listen := func(_ context.Context, t *orchestrator.Turn[heard]) error {
		t.State.Requests = append(t.State.Requests, t.Input.RequestID)
		return nil
	}
	o, err := orchestrator.New(orchestrator.Definition[heard]{
		Name: "listener", Version: "1", Intents: orchestrator.Intents[heard]{"listen": {Run: listen}},
	}, c, &orchestrator.Options{
		Snapshots: s, KeepSnapshots: checkpoint.KeepAll, Logger: quiet,
		Limits: orchestrator.Limits{LeaseTTL: time.Second, LockWait: time.Second, SettleTimeout: failoverPatience},
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// call sends one input after another, each until it is acknowledged.
func (f *traffic) call(ctx context.Context, o *orchestrator.Orchestrator[heard], session, caller string) {
	for n := 0; ctx.Err() == nil; n++ {
		request := fmt.Sprintf("%s-%d", caller, n)
		for acknowledged := false; !acknowledged && ctx.Err() == nil; {
			patience, end := context.WithTimeout(ctx, failoverPatience)
			_, err := o.Execute(patience, session, orchestrator.Input{RequestID: request, Text: "hello"}, nil)
			end()
			acknowledged = err == nil
			f.note(session, request, acknowledged)
		}
	}
}

func (f *traffic) note(session, request string, acknowledged bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if acknowledged {
		f.acks++
		f.told[session] = append(f.told[session], request)
	} else {
		f.failures++
	}
	f.changed.Broadcast()
}

func (f *traffic) wait(until func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !until() {
		f.changed.Wait()
	}
}

func (f *traffic) count(n func() int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n()
}

// judge compares the stored turns with the acknowledged ones.
func (f *traffic) judge(promoted *testenv.Server) {
	f.t.Helper()
	p, err := pgxpool.New(f.t.Context(), promoted.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	defer p.Close()
	lost, doubled := 0, 0
	for session, told := range f.told {
		var kept []string
		err := p.QueryRow(f.t.Context(), `
			SELECT array_agg(r.id) FROM jsonb_array_elements_text((
				SELECT state->'Requests' FROM holdfast_turns WHERE session = $1 ORDER BY turn DESC LIMIT 1)) AS r (id)`,
			session).Scan(&kept)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, request := range told {
			if !slices.Contains(kept, request) {
				f.t.Errorf("session %s: %s was acknowledged and is lost", session, request)
				lost++
			}
		}
		slices.Sort(kept)
		doubled += len(kept) - len(slices.Compact(kept))
	}
	f.t.Logf("%d acknowledged, %d calls failed, %d lost, %d doubled", f.acks, f.failures, lost, doubled)
	if doubled > 0 {
		f.t.Errorf("%d inputs have settled twice", doubled)
	}
}
