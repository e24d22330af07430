package bootdrain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/runnote"
	"github.com/holdfast-go/holdfast/orchestrator"
)

var (
	_ bootdrain.Sharer  = (*orchestrator.Orchestrator[int])(nil)
	_ bootdrain.Noticer = (*orchestrator.Orchestrator[int])(nil)
)

// A fleet is the processes of a bot that share the watch.
type fleet struct {
	store checkpoint.Memory
	start time.Time

	mu       sync.Mutex // protects following fields
	sessions map[string]bool
	stopped  chan struct{}
	broken   bool          // no session can be listed
	lists    time.Duration // for one list
	looks    []look
	asks     int
	// by has the process that recovered a session.
	by map[string]string
}

// A look is one pass.
type look struct {
	child string
	all   bool
	at    time.Duration
}

func newFleet(sessions int) *fleet {
	f := &fleet{start: time.Now(), sessions: make(map[string]bool), by: make(map[string]string)}
	f.stopped = make(chan struct{})
	for i := range sessions {
		f.sessions[fmt.Sprint(i)] = true
	}
	return f
}

// A member is a process of a fleet.
type member struct {
	*fleet
	child string
	takes time.Duration // for one recovery
	fails bool          // each recovery fails
	dead  *bool         // protected by the fleet's mu
	down  bool          // the watcher is unknown
	alone bool          // processes cannot know of each other
	tells bool          // it says when a run is at work
	// skew is how far the clock was set back that measures how long another process is the watcher.
	skew time.Duration
}

func (f *fleet) member(i int) member {
	return member{fleet: f, child: fmt.Sprint("p", i), dead: new(bool)}
}

func (member) Name() string { return "member" }

func (m member) OtherStopped() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

// notice makes all members find out that another process has stopped.
func (f *fleet) notice() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.stopped)
	f.stopped = make(chan struct{})
}

func (m member) Watching(ctx context.Context, every, d time.Duration) (time.Duration, error) {
	m.mu.Lock()
	m.asks++
	lost := *m.dead || m.down
	m.mu.Unlock()
	if lost {
		return 0, errors.New("no answer")
	}
	if m.alone {
		return 0, errors.ErrUnsupported
	}
	if m.skew > 0 {
		return m.skew, nil
	}
	return m.store.Watch(ctx, "member", every.String(), m.child, d)
}

func (m member) Recoverable(_ context.Context, all bool) iter.Seq2[string, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks = append(m.looks, look{m.child, all, time.Since(m.start)})
	left, broken, lists := maps.Clone(m.sessions), m.broken, m.lists
	return func(yield func(string, error) bool) {
		time.Sleep(lists)
		if broken {
			yield("", errors.New("no answer"))
			return
		}
		for session := range left {
			if !yield(session, nil) {
				return
			}
		}
	}
}

func (m member) Recover(ctx context.Context, session string) (string, error) {
	if m.fails {
		return "", errors.New("no model answers here")
	}
	m.mu.Lock()
	found := m.sessions[session]
	delete(m.sessions, session)
	if found {
		m.by[session] = m.child
	}
	m.mu.Unlock()
	if !found {
		return "cleaned", nil
	}
	if m.tells {
		runnote.AtWork(ctx)
	}
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
	}
	return "settled", nil
}

// watch runs the members for d.
func (f *fleet) watch(t *testing.T, d time.Duration, o *bootdrain.Options, members ...member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() { _ = bootdrain.Watch(ctx, m, o) })
	}
	all.Wait()
}

// count returns the number of passes over all runs, and over due runs.
func (f *fleet) count() (all, due int) {
	for _, l := range f.looks {
		if l.all {
			all++
		} else {
			due++
		}
	}
	return all, due
}

// Twenty processes make as many passes as one. The others ask now and then whether they are to look.
func TestWatchIsShared(t *testing.T) {
	for _, processes := range []int{1, 20} {
		synctest.Test(t, func(t *testing.T) {
			const minutes = 10
			f := newFleet(0)
			var members []member
			for i := range processes {
				members = append(members, f.member(i))
			}
			f.watch(t, minutes*time.Minute, &bootdrain.Options{Logger: quiet}, members...)
			all, due := f.count()
			t.Logf("%d processes: %d passes over all, %d over what is due, asked %d times in %d minutes", processes,
				all, due, f.asks, minutes)
			if all < 90 || all > 150 || due < 450 || due > 600 {
				t.Errorf("%d passes over all and %d over what is due", all, due)
			}
			if perMinute := f.asks / minutes / processes; perMinute > 30 {
				t.Errorf("each process asks %d times a minute whether it is the watcher", perMinute)
			}
		})
	}
}

// When a process is found to have stopped, each process that makes passes makes one over all runs at once. Each other
// process asks once whether it is to look.
func TestWatchNotices(t *testing.T) {
	for name, test := range map[string]struct {
		processes int
		set       func(*member)
	}{
		"one of twenty":       {20, func(*member) {}},
		"alone":               {1, func(m *member) { m.alone = true }},
		"the watcher unknown": {1, func(m *member) { m.down = true }},
		"a clock set back":    {1, func(m *member) { m.skew = time.Hour }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(0)
				var members []member
				for i := range test.processes {
					m := f.member(i)
					test.set(&m)
					members = append(members, m)
				}
				var watch sync.WaitGroup
				watch.Go(func() { f.watch(t, time.Minute, &bootdrain.Options{Logger: quiet}, members...) })
				time.Sleep(10 * time.Second) // all know their places
				for range 20 {
					time.Sleep(1234567 * time.Microsecond)
					f.mu.Lock()
					looks, asks := len(f.looks), f.asks
					f.mu.Unlock()
					f.notice()
					time.Sleep(rest)
					f.mu.Lock()
					passes := f.looks[looks:]
					all := slices.ContainsFunc(passes, func(l look) bool { return l.all })
					if n := len(passes); n < 1 || n > 2 || !all {
						t.Errorf("passes %+v", passes)
					}
					if n := f.asks - asks; n > test.processes {
						t.Errorf("%d processes asked %d times whether they are to look", test.processes, n)
					}
					f.mu.Unlock()
				}
				watch.Wait()
			})
		})
	}
}

// rest is the shortest time between two passes.
const rest = time.Second / 10

// A process that is found to have stopped during a pass, or just after one, makes the next pass come soon, but not at
// once.
func TestWatchNoticesDuringPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0)
		f.lists = 300 * time.Millisecond
		var watch sync.WaitGroup
		watch.Go(func() { f.watch(t, time.Minute, &bootdrain.Options{Logger: quiet, Every: time.Hour}, f.member(0)) })
		for range 10 {
			looks := f.awaitPass(0)
			time.Sleep(100 * time.Millisecond)
			f.notice()
			if n := f.awaitPass(looks); n != looks+1 {
				t.Fatalf("%d passes", n-looks)
			}
			f.mu.Lock()
			last := f.looks[len(f.looks)-2:]
			if after := last[1].at - last[0].at; after != f.lists+rest || !last[1].all {
				t.Errorf("the next pass began after %v: %+v", after, last)
			}
			f.mu.Unlock()
			time.Sleep(f.lists)
		}
		watch.Wait()
	})
}

// awaitPass waits until more than n passes have begun; until one more has if n is 0. It returns how many have.
func (f *fleet) awaitPass(n int) int {
	for {
		f.mu.Lock()
		now := len(f.looks)
		f.mu.Unlock()
		if n == 0 {
			n = now
		} else if now > n {
			return now
		}
		time.Sleep(time.Millisecond)
	}
}

// A pass that fails, and was made because a process had stopped, does not put off the pass that is due.
func TestNoticedPassFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0)
		f.broken = true
		m := f.member(0)
		m.alone = true
		var watch sync.WaitGroup
		o := &bootdrain.Options{Logger: quiet, Every: 24 * time.Hour}
		watch.Go(func() { f.watch(t, 1023*time.Second+rest/2, o, m) })
		time.Sleep(10 * time.Minute) // the pauses between passes that fail have doubled, and a long one is under way
		for range 100 {
			f.notice()
			time.Sleep(time.Second)
		}
		watch.Wait()
		if last := f.looks[len(f.looks)-1]; last.all || last.at != 1023*time.Second || len(f.looks) != 110 {
			t.Errorf("the last of %d passes is %+v", len(f.looks), last)
		}
	})
}

// A process that no longer makes the passes is woken once for a process that has stopped, and asks as often as others.
func TestFormerWatcherNoticesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0)
		m, other := f.member(0), f.member(1)
		m.takes = time.Minute // so that it leaves the seat when it has more runs than it can begin
		var watch sync.WaitGroup
		o := &bootdrain.Options{Logger: quiet, Concurrency: 1}
		watch.Go(func() { f.watch(t, time.Minute, o, m) })
		time.Sleep(10 * time.Second)
		watch.Go(func() { f.watch(t, 50*time.Second, o, other) })
		f.mu.Lock()
		for i := range 10 {
			f.sessions[fmt.Sprint(i)] = true
		}
		f.mu.Unlock()
		f.awaitPass(0)
		time.Sleep(2 * rest)
		f.notice() // m has begun to sleep after this pass
		time.Sleep(2 * time.Second)
		f.mu.Lock()
		asks := f.asks
		f.mu.Unlock()
		time.Sleep(4 * time.Second)
		f.mu.Lock()
		if n := f.asks - asks; n > 8 {
			t.Errorf("two processes ask %d times in four seconds whether they are to look", n)
		}
		f.mu.Unlock()
		watch.Wait()
	})
}

// A drain of given sessions begins no pass earlier.
func TestGivenSessionsNoticeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0)
		var passes atomic.Int64
		given := func(func(string, error) bool) { passes.Add(1) }
		var watch sync.WaitGroup
		o := &bootdrain.Options{Logger: quiet, Sessions: given, Every: 12 * time.Hour}
		watch.Go(func() { f.watch(t, 11*time.Hour, o, f.member(0)) })
		time.Sleep(10 * time.Hour)
		before := passes.Load()
		f.notice()
		time.Sleep(time.Second)
		if n := passes.Load(); n != before || n == 0 {
			t.Errorf("%d passes, and then %d", before, n)
		}
		watch.Wait()
	})
}

// If the watcher is killed, another process looks for due runs, and for all, before Options.Every is over, also if the
// processes find out at once.
func TestWatcherKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, every := range []time.Duration{0, time.Second, 2 * time.Second} {
			for range 30 {
				killWatcher(t, every, false)
				killWatcher(t, every, true)
			}
		}
	})
}

func killWatcher(t *testing.T, every time.Duration, noticed bool) {
	f := newFleet(0)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	o := &bootdrain.Options{Logger: quiet, Every: every}
	kill := make(map[string]func())
	for i := range 3 {
		m := f.member(i)
		own, stop := context.WithCancel(ctx)
		// Calls after the kill have no effect.
		kill[m.child] = func() {
			*m.dead = true
			stop()
		}
		all.Go(func() { _ = bootdrain.Watch(own, m, o) })
	}
	time.Sleep(time.Minute)
	f.mu.Lock()
	last := f.looks[len(f.looks)-1]
	kill[last.child]()
	f.looks = nil
	f.mu.Unlock()
	if noticed {
		f.notice()
	}
	if every == 0 {
		every = 5 * time.Second
	}
	time.Sleep(every)
	cancel()
	all.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if all, _ := f.count(); all == 0 || f.looks[0].child == last.child {
		t.Errorf("with passes each %v, that long after %s was killed %+v", every, last.child, f.looks)
	}
}

// If a process has more runs than it can begin, others take part.
func TestWatchersHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(200)
		var members []member
		for i := range 5 {
			m := f.member(i)
			m.takes = time.Second
			members = append(members, m)
		}
		f.watch(t, 20*time.Second, &bootdrain.Options{Logger: quiet, Concurrency: 4}, members...)
		each := make(map[string]int)
		for _, child := range f.by {
			each[child]++
		}
		if len(f.sessions) > 0 || len(each) != len(members) {
			t.Errorf("after 20 s, which is twice as long as all need, %d of 200 runs are left; recovered by %v",
				len(f.sessions), each)
		}
	})
}

// If so many runs are at work that a process can begin no more, it leaves the rest to others at once. After a process
// has stopped, the others ask often enough to take over at once as well.
func TestFullWatcherLeaves(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			const processes, running, link = 5, 10, 3 * time.Second / 2
			f := newFleet(0)
			var members []member
			for i := range processes {
				m := f.member(i)
				m.takes, m.tells = time.Hour, true
				members = append(members, m)
			}
			o := &bootdrain.Options{Logger: quiet, Running: running}
			var watch sync.WaitGroup
			watch.Go(func() { f.watch(t, time.Minute, o, members...) })
			time.Sleep(20*time.Second + rand.N(5*time.Second))
			f.mu.Lock()
			for i := range processes*running - 5 {
				f.sessions[fmt.Sprint(i)] = true
			}
			f.mu.Unlock()
			f.notice()
			for full := 1; full < processes; full++ {
				synctest.Wait()
				time.Sleep(rest)
				synctest.Wait()
				f.mu.Lock()
				if n := len(f.by); n < full*running {
					t.Errorf("%d runs have begun after %d processes had %v each to ask", n, full-1, link)
				}
				f.mu.Unlock()
				time.Sleep(link)
			}
			f.mu.Lock()
			each := make(map[string]int)
			for _, child := range f.by {
				each[child]++
			}
			if len(f.sessions) > 0 || len(each) != processes {
				t.Errorf("%d runs are left; recovered by %v", len(f.sessions), each)
			}
			f.mu.Unlock()
			watch.Wait()
		})
	}
}

// A process leaves the seat at once if Running is reached and a session waits. It does not if no session waits, or if
// sessions wait for a place only.
func TestSeatIsLeft(t *testing.T) {
	for _, test := range []struct {
		sessions, running int
		tells, left       bool
	}{
		{sessions: 11, running: 10, tells: true, left: true},
		{sessions: 10, running: 10, tells: true},
		{sessions: 11, running: 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(0)
			m := f.member(0)
			m.takes, m.tells = time.Hour, test.tells
			var watch sync.WaitGroup
			o := &bootdrain.Options{Logger: quiet, Running: test.running}
			watch.Go(func() { f.watch(t, time.Minute, o, m) })
			time.Sleep(10 * time.Second)
			f.mu.Lock()
			for i := range test.sessions {
				f.sessions[fmt.Sprint(i)] = true
			}
			f.mu.Unlock()
			f.notice()
			time.Sleep(2 * rest)
			left, err := f.store.Watch(t.Context(), "member", (5 * time.Second).String(), "another", 0)
			if err != nil || left == 0 != test.left {
				t.Errorf("%+v: the process has the seat for %v more, %v", test, left, err)
			}
			f.mu.Lock()
			asks := f.asks
			f.mu.Unlock()
			watch.Wait()
			if test.left && f.asks != asks {
				t.Errorf("a process that is full asks %d times more", f.asks-asks)
			}
		})
	}
}

// For ten seconds after a process has stopped, the others ask about once a second whether they are to look. After that
// they ask as seldom as before.
func TestOthersAskMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes = 20
		f := newFleet(0)
		var members []member
		for i := range processes {
			members = append(members, f.member(i))
		}
		var watch sync.WaitGroup
		watch.Go(func() { f.watch(t, time.Minute, &bootdrain.Options{Logger: quiet}, members...) })
		asked := func(d time.Duration) (each float64) {
			f.mu.Lock()
			before := f.asks
			f.mu.Unlock()
			time.Sleep(d)
			f.mu.Lock()
			defer f.mu.Unlock()
			return float64(f.asks-before) / processes
		}
		asked(15 * time.Second)
		before := asked(10 * time.Second)
		f.notice()
		soon := asked(10 * time.Second)
		asked(5 * time.Second)
		later := asked(10 * time.Second)
		if soon < 8 || soon > 14 || before > 4 || later > 4 {
			t.Errorf("in ten seconds each process asked %.1f times, %.1f times after a stop, and then %.1f times",
				before, soon, later)
		}
		watch.Wait()
	})
}

// If one process alone has more runs than it can begin, it goes on with them, and looks again afterwards.
func TestWatcherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(40)
		m := f.member(0)
		m.takes = time.Second
		time.AfterFunc(11*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.sessions["late"] = true
		})
		f.watch(t, 20*time.Second, &bootdrain.Options{Logger: quiet, Concurrency: 4}, m)
		if len(f.sessions) > 0 {
			t.Errorf("%d runs are left", len(f.sessions))
		}
	})
}

// A process that is alone goes on likewise after Running was reached, also if it does not notice that another process
// has stopped.
func TestFullWatcherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(20)
		m := f.member(0)
		m.takes, m.tells = time.Second, true
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_ = bootdrain.Watch(ctx, struct{ bootdrain.Sharer }{m}, &bootdrain.Options{Logger: quiet, Running: 2})
		if len(f.sessions) > 0 {
			t.Errorf("%d runs are left", len(f.sessions))
		}
	})
}

// If the watcher fails to recover a session, another process tries.
func TestWatcherFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0)
		bad, good := f.member(0), f.member(1)
		bad.fails = true
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		o := &bootdrain.Options{Logger: quiet}
		all.Go(func() { _ = bootdrain.Watch(ctx, bad, o) })
		time.Sleep(10 * time.Second)
		all.Go(func() { _ = bootdrain.Watch(ctx, good, o) })
		time.Sleep(10 * time.Second)
		f.mu.Lock()
		f.sessions["a"] = true
		f.mu.Unlock()
		time.Sleep(10 * time.Second)
		cancel()
		all.Wait()
		if f.by["a"] != good.child {
			t.Errorf("after ten seconds the run is recovered by %q", f.by["a"])
		}
	})
}

// While the watcher is unknown, every process looks.
func TestWatcherUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		m := f.member(0)
		m.down = true
		var logs bytes.Buffer
		f.watch(t, 30*time.Second, &bootdrain.Options{Logger: logTo(&logs)}, m)
		if n := strings.Count(logs.String(), "watch not shared"); len(f.sessions) > 0 || n < 5 || n > 20 {
			t.Errorf("%d runs are left, and %d times it is logged why\n%s", len(f.sessions), n, &logs)
		}
	})
}

// If the clock of the store was set back, the time of a dead watcher does not end soon. Processes look all the same.
func TestWatcherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		m := f.member(0)
		m.skew = time.Hour
		f.watch(t, 30*time.Second, &bootdrain.Options{Logger: quiet}, m)
		if all, _ := f.count(); len(f.sessions) > 0 || all < 4 {
			t.Errorf("%d runs are left after %d passes over all", len(f.sessions), all)
		}
	})
}
