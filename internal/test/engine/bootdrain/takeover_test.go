package bootdrain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The goals for a quiet machine. HOLDFAST_SOAK=1 asserts them.
const (
	takeoverMedian  = 5 * time.Second
	takeoverLongest = 7 * time.Second
)

// longLease is longer than the patience of a test: what is taken over before is taken from a process that is silent.
const longLease = 30 * time.Minute

// The run of a process that is killed is taken up within seconds by another process that watches, though its lease
// lasts longer. A caller who comes right after the kill is served.
func TestTakeover(t *testing.T) {
	const victims = 8
	sites(t, func(t *testing.T, s site, _ opened) {
		s.Defaults, s.Conns, s.TTL = true, 4, longLease
		w := openSite(t, s)
		watching := newWatching(t, nil, w, w)
		sessions := names("v", victims)
		var children []*child
		for _, session := range sessions {
			p := job{Do: execute, Site: s, Body: wait, Sessions: []string{session}, Text: "hello"}.start(t)
			p.hear(inFlight)
			children = append(children, p)
		}
		w.wantBeating(t, sessions...)

		killed := make(map[string]time.Time)
		for i, session := range sessions {
			killed[session] = time.Now()
			children[i].kill()
		}
		caller := w.start(t, nil)
		if _, err := caller.Execute(patience(t), sessions[0], orchestrator.Input{Text: "again"}, nil); err != nil {
			t.Errorf("a caller after the kill: %v", err)
		}
		served := time.Since(killed[sessions[0]])
		took := watching.settled(t, killed, sessions[1:]...)
		slices.Sort(took)
		median, longest := took[len(took)/2], took[len(took)-1]
		t.Logf("taken up after %v, longest %v; a caller was served after %v", median, longest, served)
		longest = max(longest, served)
		if soak() && (median > takeoverMedian || longest > takeoverLongest) {
			t.Errorf("median %v, longest %v; want %v and %v", median, longest, takeoverMedian, takeoverLongest)
		}
		watching.end()
		for i, session := range sessions {
			texts := []string{"hello"}
			if i == 0 {
				texts = append(texts, "again")
			}
			wantTurns(t, caller, session, texts...)
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// Whenever a process dies between two beats and two passes of the watch, its turn is taken up after five seconds and
// a tenth at most: DeadAfter, one second until the watch has seen the last beat, and the rest between two passes.
func TestTakeoverIsPunctual(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			w := opened{checkpoints: new(checkpoint.Memory), snapshots: new(snapshot.Memory), effects: os.DevNull}
			watching := newWatching(t, nil, w)
			time.Sleep(rand.N(5 * time.Second))
			took := w.takenUp(t, watching, "s")
			if took[0] < 3*time.Second || took[0] > 5*time.Second+rest {
				t.Errorf("taken up after %v", took[0])
			}
		})
	}
}

// takenUp kills a process that has a turn in each session, and waits until all turns are settled. It returns how long
// after the kill each was.
func (w opened) takenUp(t *testing.T, watching *watching, sessions ...string) (took []time.Duration) {
	t.Helper()
	dying := w
	var dead atomic.Bool
	around := func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		if dead.Load() {
			return errors.New("the process is dead")
		}
		return next(ctx)
	}
	dying.checkpoints = faulttest.Checkpoints(w.checkpoints, around)
	dying.snapshots = faulttest.Snapshots(w.snapshots, around)
	victim := dying.start(t, func(ctx context.Context, _ *turn) error {
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for _, session := range sessions {
		calls.Go(func() {
			if _, err := victim.Execute(ctx, session, orchestrator.Input{Text: "hello"}, nil); err == nil {
				t.Error("a dead process has settled a turn")
			}
		})
	}
	time.Sleep(time.Second + rand.N(5*time.Second)) // it beats
	dead.Store(true)
	killed, now := make(map[string]time.Time), time.Now()
	for _, session := range sessions {
		killed[session] = now
	}
	took = watching.settled(t, killed, sessions...)
	stop()
	calls.Wait()
	watching.end()
	caller := w.start(t, nil)
	for _, session := range sessions {
		wantTurns(t, caller, session, "hello")
	}
	return took
}

// A takeover is of the turns in flight of a process that dies beside others that watch.
type takeover struct {
	turns, watchers int
	within          time.Duration // for 99 of 100 turns
}

var takeovers = []takeover{{200, 2, 7 * time.Second}, {1000, 10, 10 * time.Second}}

func (c takeover) String() string { return fmt.Sprintf("%d turns, %d watchers", c.turns, c.watchers) }

// judge logs when the turns were taken up, and checks the goal of a machine that is quiet.
func (c takeover) judge(t *testing.T, took []time.Duration, quiet bool) {
	t.Helper()
	slices.Sort(took)
	of := func(percent int) time.Duration { return took[len(took)*percent/100].Round(time.Millisecond) }
	t.Logf("%v: taken up after %v, p99 %v, longest %v", c, of(50), of(99), took[len(took)-1])
	if p99 := of(99); quiet && p99 > c.within || len(took) != c.turns {
		t.Errorf("%d taken up, p99 %v; want %v", len(took), p99, c.within)
	}
}

// A process dies in the middle of many turns, each of which takes ten seconds. All of them are taken up soon, not one
// after the other.
func TestTakeoverOfMany(t *testing.T) {
	const long = 10 * time.Second
	for _, c := range takeovers {
		t.Run(c.String(), func(t *testing.T) {
			for range 3 {
				synctest.Test(t, func(t *testing.T) {
					w := opened{effects: os.DevNull}
					w.checkpoints, w.snapshots = new(checkpoint.Memory), new(snapshot.Memory)
					watching := newWatching(t, func(context.Context, *turn) error {
						time.Sleep(long)
						return nil
					}, slices.Repeat([]opened{w}, c.watchers)...)
					time.Sleep(rand.N(5 * time.Second))
					took := w.takenUp(t, watching, names("s", c.turns)...)
					for i := range took {
						took[i] -= long
					}
					c.judge(t, took, true)
				})
			}
		})
	}
}

// The same with a process that is killed, on PostgreSQL, with the connections that a pool has by default. No turn ends
// before all are taken up. Meanwhile the pools of the watchers serve callers.
func TestTakeoverOfManyKilled(t *testing.T) {
	for _, c := range takeovers {
		if c.turns > 200 && !soak() {
			continue
		}
		t.Run(c.String(), func(t *testing.T) { c.killed(t) })
	}
	leaktest.None(t, testenv.Leaks()...)
}

func (c takeover) killed(t *testing.T) {
	s := onPostgres(t)
	s.Effects, s.Defaults, s.Conns, s.TTL = os.DevNull, true, 4, longLease
	var watchers []opened
	for range c.watchers {
		watchers = append(watchers, openSite(t, s))
	}
	started, all := make(chan time.Time, c.turns), make(chan struct{})
	watching := newWatching(t, func(ctx context.Context, _ *turn) error {
		started <- time.Now()
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, watchers...)
	sessions := names("s", c.turns)
	p := job{Do: execute, Site: s, Body: wait, Sessions: sessions, Text: "hello"}.start(t)
	p.hear(inFlight)
	watchers[0].wantBeating(t, sessions...)

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var longest, calls atomic.Int64
	for i, w := range watchers {
		b := w.start(t, nil)
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				begun := time.Now()
				in := orchestrator.Input{Text: "hello"}
				if _, err := b.Execute(t.Context(), fmt.Sprint("live ", i, " ", n), in, nil); err != nil {
					t.Error(err)
				}
				calls.Add(1)
				longest.Store(max(longest.Load(), int64(time.Since(begun))))
				<-time.After(10 * time.Millisecond)
			}
		})
	}
	defer callers.Wait()
	defer stop()
	killed := time.Now()
	p.kill()
	var took []time.Duration
	for patient := patience(t); len(took) < c.turns; {
		select {
		case at := <-started:
			took = append(took, at.Sub(killed))
		case <-patient.Done():
			t.Fatalf("%d taken up", len(took))
		}
	}
	stop()
	callers.Wait()
	t.Logf("beside %d calls, of which the longest took %v", calls.Load(), time.Duration(longest.Load()))
	c.judge(t, took, soak())
	close(all)
	ends := make(map[string]time.Time)
	for _, session := range sessions {
		ends[session] = killed
	}
	watching.settled(t, ends, sessions...)
	watching.end()
	caller := watchers[0].start(t, nil)
	for _, session := range sessions {
		wantTurns(t, caller, session, "hello")
	}
}

// A process is stopped for three seconds, as a busy host does, while another process watches. Its turns go on
// afterwards, and are not taken over.
func TestStoppedForAMoment(t *testing.T) {
	sites(t, func(t *testing.T, s site, _ opened) {
		s.Defaults, s.Conns, s.DeadAfter, s.TTL = true, 4, time.Minute, longLease
		w := openSite(t, s)
		stopForAMoment(t, s, w, newWatching(t, nil, w), "s")
	})
	leaktest.None(t, testenv.Leaks()...)
}

// stopForAMoment checks that the process still owns its session when it is told to hand the run off.
func stopForAMoment(t *testing.T, s site, w opened, watching *watching, session string) {
	t.Helper()
	p := job{Do: execute, Site: s, Body: wait, Sessions: []string{session}, Text: "hello"}.start(t)
	p.hear(inFlight)
	<-time.After(time.Second) // it beats
	for _, step := range []struct {
		signal os.Signal
		lasts  time.Duration
	}{{sigStop, 3 * time.Second}, {sigCont, 2 * time.Second}} {
		if err := p.cmd.Process.Signal(step.signal); err != nil {
			t.Fatal(err)
		}
		<-time.After(step.lasts)
	}
	p.goOn()
	p.hear(left)
	p.exit()
	watching.settled(t, map[string]time.Time{session: time.Now()}, session)
	wantTurns(t, w.start(t, nil), session, "hello")
}

// While a process owns sessions it sends one statement a second for its beats, however many sessions it owns.
func TestBeatsAreFew(t *testing.T) {
	t.Parallel()
	const sessions = 20
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	migrated(t, "pgx", server.URL, migrations.Postgres)
	w := openSite(t, site{Postgres: server.URL, Effects: os.DevNull, Defaults: true, Conns: 4})
	entered, goOn := make(chan struct{}), make(chan struct{})
	b := w.start(t, func(context.Context, *turn) error {
		entered <- struct{}{}
		<-goOn
		return nil
	})
	var turns sync.WaitGroup
	for _, session := range names("s", sessions) {
		turns.Go(func() {
			if _, err := b.Execute(t.Context(), session, orchestrator.Input{Text: "hello"}, nil); err != nil {
				t.Error(err)
			}
		})
		<-entered
	}
	<-time.After(2 * time.Second) // it beats
	before, began := server.Statements(), time.Now()
	sent, took := int64(0), time.Duration(0)
	for took < 5*time.Second || sent == 0 {
		<-time.After(time.Second)
		sent, took = server.Statements()-before, time.Since(began)
	}
	close(goOn)
	turns.Wait()
	// As many again may renew leases: those that were taken in the same second are renewed together.
	if most := 2 * (int64(took/time.Second) + 1); sent > most {
		t.Errorf("%d statements in %v, want at most %d", sent, took, most)
	}
	t.Logf("%d statements in %v for %d sessions", sent, took, sessions)
}

// wantBeating waits until the store knows the owners of the sessions as processes that beat. Who watches may beat too.
func (w opened) wantBeating(t *testing.T, sessions ...string) {
	t.Helper()
	ctx := patience(t)
	for {
		owners, err := w.checkpoints.Held(ctx, "support", sessions)
		if err != nil {
			t.Fatal(err)
		}
		beats, err := w.checkpoints.(lock.Beater).Beat(ctx, "")
		if err != nil {
			t.Fatalf("%d processes beat: %v", len(beats), err)
		}
		beating := 0
		for _, owner := range owners {
			if _, ok := beats[owner]; ok {
				beating++
			}
		}
		if beating == len(sessions) {
			return
		}
	}
}

// A watching is some processes that watch, and when they settled what.
type watching struct {
	stop context.CancelFunc
	jobs sync.WaitGroup
	runs chan watched
}

type watched struct {
	bootdrain.Run
	at time.Time
}

// newWatching makes a process watch on each of the opened sites. Its turns run body.
func newWatching(t *testing.T, body func(context.Context, *turn) error, sites ...opened) *watching {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watching{stop: stop, runs: make(chan watched, 1000)}
	for _, site := range sites {
		b := site.start(t, body)
		w.jobs.Go(func() {
			_ = bootdrain.Watch(ctx, b, &bootdrain.Options{Logger: quiet, OnRun: func(r bootdrain.Run) {
				if r.Err != nil || r.Outcome == "settled" {
					w.runs <- watched{r, time.Now()}
				}
			}})
		})
	}
	t.Cleanup(w.end)
	return w
}

func (w *watching) end() {
	w.stop()
	w.jobs.Wait()
}

// settled waits until the runs of sessions are settled. It returns how long after their owners were killed.
func (w *watching) settled(t *testing.T, killed map[string]time.Time, sessions ...string) (took []time.Duration) {
	t.Helper()
	ctx := patience(t)
	left := slices.Clone(sessions)
	for len(left) > 0 {
		select {
		case r := <-w.runs:
			if r.Err != nil {
				t.Errorf("%s: %v", r.Session, r.Err)
			}
			if i := slices.Index(left, r.Session); i >= 0 && r.Err == nil {
				took = append(took, r.at.Sub(killed[r.Session]))
				left = slices.Delete(left, i, i+1)
			}
		case <-ctx.Done():
			t.Fatalf("not taken up: %q", left)
		}
	}
	return took
}
