package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A service is a group of workers. Each settles turns in a session of its own, with a run in flight, also while Redis
// fails.
type service struct {
	t      *testing.T
	turns  *redischeckpoint.Store
	runs   *redissnapshot.Store
	told   [workers][]ack
	acks   atomic.Int64
	errs   atomic.Int64
	beats  chan int
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// An ack is a turn that was acknowledged.
type ack struct {
	turn int
	run  string
}

const workers = 4

var services atomic.Int64

func serve(t *testing.T, client redis.UniversalClient) *service {
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{
		t: t, turns: redischeckpoint.New(client, nil), runs: redissnapshot.New(client, nil), beats: make(chan int),
		cancel: cancel,
	}
	for w := range workers {
		s.all.Go(func() { s.work(ctx, w) })
	}
	t.Cleanup(s.stop)
	return s
}

func (s *service) stop() {
	s.cancel()
	s.all.Wait()
}

// goesOn waits until every worker has had n more turns acknowledged.
func (s *service) goesOn(n int) {
	s.t.Helper()
	patience := time.After(time.Minute)
	var acks [workers]int
	for left := workers; left > 0; {
		select {
		case w := <-s.beats:
			if acks[w]++; acks[w] == n {
				left--
			}
		case <-patience:
			s.t.Fatalf("acknowledged turns of each worker: %d, want %d", acks, n)
		}
	}
}

// last waits until calls fail and no turn was acknowledged for two seconds. It returns when the last turn was
// acknowledged.
func (s *service) last() (at time.Time) {
	s.t.Helper()
	at = time.Now()
	for start := at; ; {
		select {
		case <-s.beats:
			at = time.Now()
		case <-time.After(2 * time.Second):
			if s.errs.Load() > 0 {
				return at
			}
		}
		if time.Since(start) > time.Minute {
			s.t.Fatal("a master without its replica goes on")
		}
	}
}

func (s *service) work(ctx context.Context, w int) {
	for n, me := 0, services.Add(1); ctx.Err() == nil; n++ {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		err := s.turn(try, w, fmt.Sprintf("r%d-%d", me, n))
		cancel()
		if err == nil {
			s.acks.Add(1)
			select {
			case s.beats <- w:
			default:
			}
			continue
		}
		if s.errs.Add(1); !known(err) {
			s.t.Errorf("an error that says nothing: %v", err)
		}
	}
}

// turn settles one turn of the worker's session.
func (s *service) turn(ctx context.Context, w int, id string) error {
	k := key(fmt.Sprint("s", w))
	c, err := s.turns.Claim(ctx, k,
		checkpoint.ClaimRequest{Owner: "test", Nonce: id, TTL: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	n := 0
	if c.Last != nil {
		n = c.Last.Turn + 1
	}
	r := runAs(k.Session, id, 1)
	r.Fence = c.Fence
	found, err := s.runs.Begin(ctx, r)
	if err == nil && found != nil { // of a turn that was cut off
		if r, err = s.runs.Adopt(ctx, k, c.Fence, 0); err == nil {
			err = remove(ctx, s.runs, r)
		}
		return errors.Join(err, s.turns.Mark(ctx, c.Lease, checkpoint.Marks{Release: true}))
	}
	if err == nil {
		err = s.runs.Save(ctx, step(r, 1))
	}
	if err == nil {
		cp := checkpoint.Checkpoint{Turn: n, RunID: id, State: []byte(`{}`)}
		err = s.turns.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: checkpoint.KeepAll, Release: true})
	}
	if err != nil {
		return err
	}
	s.told[w] = append(s.told[w], ack{n, id})
	if err = remove(ctx, s.runs, r); err != nil && known(err) {
		err = nil
	}
	return err
}

// known reports whether an error says what became of a call, or says that this is not known for lack of an answer.
func known(err error) bool {
	for _, target := range []error{
		checkpoint.ErrRefused, snapshot.ErrRefused, lock.ErrFenced, lock.ErrHeld, checkpoint.ErrConflict,
		snapshot.ErrNotFound,
		context.DeadlineExceeded, io.EOF,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network || strings.Contains(err.Error(), "refused, after a request that was not answered") ||
		strings.Contains(err.Error(), "all sentinels specified in configuration are unreachable")
}

// judge reads every session, which must be whole. It returns how many acknowledged turns are missing.
func (s *service) judge() (lost int) {
	s.t.Helper()
	s.stop()
	ctx := s.t.Context()
	for w := range workers {
		kept := make(map[int]string)
		last := -1
		for cp, err := range s.turns.Turns(ctx, key(fmt.Sprint("s", w)), checkpoint.Newest) {
			check(s.t, err)
			kept[cp.Turn] = cp.RunID
			last = max(last, cp.Turn)
		}
		if len(kept) != last+1 {
			s.t.Errorf("session %d has %d turns up to %d", w, len(kept), last)
		}
		for _, a := range s.told[w] {
			if kept[a.turn] != a.run {
				lost++
			}
		}
	}
	listed(s.t, s.runs, "")
	s.t.Logf("%d turns acknowledged, %d of them lost; %d calls failed", s.acks.Load(), lost, s.errs.Load())
	return lost
}

// A front is the address that clients are sent to.
type front struct{ addr atomic.Pointer[string] }

func (f *front) send(t *testing.T, s *testenv.Server) {
	o, err := redis.ParseURL(s.URL)
	check(t, err)
	f.addr.Store(&o.Addr)
}

// client returns a client that follows the front. It never dials its own address.
func (f *front) client(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: "192.0.2.1:1", DialTimeout: time.Second, ReadTimeout: time.Second, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *f.addr.Load())
		},
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func rounds() int {
	if redistest.Soak() {
		return 20
	}
	return 1
}

// A master is killed under traffic, and its replica is promoted. The last acknowledged writes can be lost. The service
// continues, its sessions are whole, and the error of each call says what became of the call.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	for range rounds() {
		pair := testenv.StartRedisPair(t, nil)
		f := new(front)
		f.send(t, pair.Master)
		s := serve(t, f.client(t))
		s.goesOn(50)
		pair.Master.Kill()
		pair.Promote()
		f.send(t, pair.Replica)
		s.goesOn(50)
		s.judge()
	}
}

// The same holds if Sentinels promote the replica.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	for range rounds() {
		pair := testenv.StartRedisPair(t, nil)
		pair.Watch()
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: testenv.MasterName, SentinelAddrs: pair.Sentinels, ContextTimeoutEnabled: true,
			ReadTimeout: time.Second,
		})
		s := serve(t, client)
		s.goesOn(50)
		start := time.Now()
		pair.Master.Kill()
		s.goesOn(50)
		t.Logf("50 turns of each worker %v after the kill", time.Since(start).Round(time.Millisecond))
		s.judge()
		client.Close()
	}
}

// With min-replicas-to-write a master that has lost its replica refuses writes once min-replicas-max-lag has passed.
// The writes that were acknowledged before the replica was lost are kept. So only the writes of that time can be lost.
func TestRedisMinReplicas(t *testing.T) {
	t.Parallel()
	pair := testenv.StartRedisPair(t, map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": "1"})
	f := new(front)
	f.send(t, pair.Master)
	client := f.client(t)
	s := serve(t, client)
	s.goesOn(20)
	s.stop()
	if n := client.Wait(t.Context(), 1, 10*time.Second).Val(); n != 1 {
		t.Fatal("the replica does not follow")
	}
	if lost := s.judge(); lost > 0 {
		t.Fatalf("%d turns are lost", lost)
	}
	pair.Replica.Stop()
	cut := time.Now()
	late := serve(t, client)
	window := late.last().Sub(cut)
	late.stop()
	pair.Master.Kill()
	pair.Replica.Continue()
	pair.Promote()
	f.send(t, pair.Replica)
	if lost := s.judge(); lost > 0 {
		t.Errorf("%d turns are lost that the replica had", lost)
	}
	late.judge()
	t.Logf("%d turns acknowledged in %v without a replica", late.acks.Load(), window.Round(time.Millisecond))
}

// A claim supersedes an owner, but the replica never gets the claim. After the failover the former owner owns the
// session again, and settles the turn that the new owner has settled. After Raise it does not.
func TestRedisSupersededOwnerAfterFailover(t *testing.T) {
	t.Parallel()
	pair := testenv.StartRedisPair(t, nil)
	f := new(front)
	f.send(t, pair.Master)
	client := f.client(t)
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	const sessions = 200
	claim := func(i int, nonce string, from lock.Fence) checkpoint.Lease {
		t.Helper()
		k := key(fmt.Sprint("s", i))
		c, err := s.Claim(ctx, k, checkpoint.ClaimRequest{Owner: "test", Nonce: nonce, TTL: time.Hour, From: from})
		check(t, err)
		return c.Lease
	}
	settle := func(l checkpoint.Lease, id string) error {
		return s.Append(ctx, l, checkpoint.Checkpoint{RunID: id, State: []byte(`{}`)}, checkpoint.AppendOptions{})
	}
	var former [sessions]checkpoint.Lease
	for i := range sessions {
		former[i] = claim(i, "former", lock.Fence{})
	}
	if n := client.Wait(ctx, 1, 10*time.Second).Val(); n != 1 {
		t.Fatal("the replica does not follow")
	}
	pair.Cut()
	for i := range sessions {
		check(t, settle(claim(i, "next", former[i].Fence), "next"))
		want(t, settle(former[i], "former"), lock.ErrFenced)
	}
	pair.Master.Kill()
	pair.Promote()
	f.send(t, pair.Replica)
	twice := 0
	for i := range sessions / 2 {
		if settle(former[i], "former") == nil {
			twice++
		}
	}
	if twice != sessions/2 {
		t.Errorf("%d of %d settle twice: the documentation says all", twice, sessions/2)
	}
	if n, err := s.Raise(ctx, time.Now()); n != sessions || err != nil {
		t.Errorf("%d owners are ended, want %d: %v", n, sessions, err)
	}
	for i := sessions / 2; i < sessions; i++ {
		want(t, settle(former[i], "former"), lock.ErrFenced)
		check(t, settle(claim(i, "last", lock.Fence{}), "last"))
	}
}
