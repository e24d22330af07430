package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/lock"
)

var (
	errGone = errors.New("no such server")
	errFull = errors.New("out of memory")
)

// A wire is the way of one process to the store. When it is cut, nothing gets through, and the store does not know.
type wire struct {
	*checkpoint.Memory

	mu      sync.Mutex // protects following fields
	cut     bool
	full    bool          // the store answers, and takes no writes
	stopped chan struct{} // closed when the process goes on; nil while it runs
	sent    int           // beats that came through
	refuses bool          // the role has no right to the beats
	calls   int           // for beats
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

func (w *wire) fill(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// stop stops the process for d, as SIGSTOP does.
func (w *wire) stop(d time.Duration) {
	stopped := make(chan struct{})
	w.mu.Lock()
	w.stopped = stopped
	w.mu.Unlock()
	time.Sleep(d)
	w.mu.Lock()
	w.stopped = nil
	w.mu.Unlock()
	close(stopped)
}

func (w *wire) through() error {
	w.mu.Lock()
	stopped, cut := w.stopped, w.cut
	w.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	if cut {
		return errGone
	}
	return nil
}

// ask notes a call for beats.
func (w *wire) ask() error {
	w.mu.Lock()
	w.calls++
	refuses := w.refuses
	w.mu.Unlock()
	if refuses {
		return fmt.Errorf("%w: %w", checkpoint.ErrRefused, noRight{})
	}
	return w.through()
}

func (w *wire) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

func (w *wire) beats() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *wire) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := w.through(); err != nil {
		return checkpoint.Claimed{}, err
	}
	return w.Memory.Claim(ctx, k, r)
}

func (w *wire) Renew(ctx context.Context, ttl time.Duration, l []checkpoint.Lease) ([]checkpoint.Lease, error) {
	if err := w.through(); err != nil {
		return nil, err
	}
	return w.Memory.Renew(ctx, ttl, l)
}

func (w *wire) Beat(ctx context.Context, process string) (map[string]int64, error) {
	if err := w.ask(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	full := w.full && process != ""
	if process != "" && !full {
		w.sent++
	}
	w.mu.Unlock()
	if full {
		return nil, errFull
	}
	return w.Memory.Beat(context.WithoutCancel(ctx), process) // a timer that is due fires when the process goes on
}

func (w *wire) Rest(ctx context.Context, process string) error {
	if err := w.ask(); err != nil {
		return err
	}
	return w.Memory.Rest(ctx, process)
}

// beating returns a process on its own wire to m. Its leases last for an hour.
func beating(m *checkpoint.Memory, name string, l lock.Locker) (*Process, *wire) {
	w := &wire{Memory: m}
	return New(Options{
		Orchestrator: "bot", Rows: rows{w}, Pulse: pulse.Named(w, name), Locker: l,
		Logger: slog.New(slog.DiscardHandler), Waited: func(time.Time) {},
		Why:      func(err error) slog.Attr { return slog.Any("err", err) },
		LeaseTTL: time.Hour, DeadAfter: 4 * time.Second, LockWait: 30 * time.Second, SettleTimeout: 10 * time.Second,
	}), w
}

func own(t *testing.T, p *Process, session string) *Session {
	t.Helper()
	s := new(Session)
	if err := s.Acquire(t.Context(), p, session, p.row(session), true); err != nil {
		t.Fatal(err)
	}
	return s
}

// Sessions of a dead process are taken over within seconds, though its leases go on, and though its lock is left.
func TestTakenFromTheDead(t *testing.T) {
	for name, locker := range map[string]lock.Locker{"no locker": nil, "locker": new(lock.Memory)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := new(checkpoint.Memory)
				a, dying := beating(m, "a", locker)
				b, _ := beating(m, "b", locker)
				own(t, a, "s")
				time.Sleep(10 * time.Second)
				dying.set(true)
				died := time.Now()
				s := own(t, b, "s")
				if took := time.Since(died); took < 3*time.Second || took > 6*time.Second {
					t.Errorf("taken after %v", took)
				}
				if s.From != "a" || s.Stood < 4*time.Second {
					t.Errorf("taken from %q after %v", s.From, s.Stood)
				}
				s.Done()
				own(t, b, "s").Done() // it is free again
			})
		})
	}
}

// A process that watches knows who has died when it is asked. It need not wait for each session.
func TestWatchKnowsTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, dying := beating(m, "a", nil)
		b, watching := beating(m, "b", nil)
		own(t, a, "s")
		own(t, a, "t")
		time.Sleep(700 * time.Millisecond) // so that no look comes at the time of a beat
		for range 10 {
			b.Watch()
			time.Sleep(time.Second)
		}
		before := b.Watch()
		if n := watching.beats(); n > 0 {
			t.Errorf("a process without calls has beaten %d times, and suspects no other", n)
		}
		dying.set(true)
		for range 6 {
			b.Watch()
			time.Sleep(time.Second)
		}
		if stops := b.Watch(); stops != before+1 || !b.Stopped("a") || b.Stopped("b") {
			t.Fatalf("%d have stopped, a has: %t", stops-before, b.Stopped("a"))
		}
		for _, session := range []string{"s", "t"} {
			var s Session
			if err := s.Acquire(t.Context(), b, session, b.row(session), false); err != nil {
				t.Errorf("%s: %v", session, err)
			}
		}
		dying.set(false) // it had only stood still
		time.Sleep(3 * time.Second)
		b.Watch()
		if b.Stopped("a") {
			t.Error("a process that beats again counts as stopped")
		}
	})
}

// No process is taken for dead because it is slow, or because the store was away, or because the watching process was.
func TestNobodyDies(t *testing.T) {
	for name, events := range map[string]func(owner, watcher *wire){
		"nothing happens": func(*wire, *wire) { time.Sleep(time.Minute) },
		"the owner stops for three seconds": func(owner, _ *wire) {
			for range 5 {
				time.Sleep(4700 * time.Millisecond)
				owner.stop(3 * time.Second)
			}
		},
		"the store is away": func(owner, watcher *wire) {
			for range 5 {
				owner.set(true)
				watcher.set(true)
				time.Sleep(20 * time.Second)
				watcher.set(false)
				time.Sleep(2 * time.Second)
				owner.set(false)
				time.Sleep(5 * time.Second)
			}
		},
		"the store takes no writes": func(owner, watcher *wire) {
			for range 5 {
				owner.fill(true)
				watcher.fill(true)
				time.Sleep(20 * time.Second)
				watcher.fill(false)
				owner.fill(false)
				time.Sleep(5 * time.Second)
			}
		},
		"the watcher is away": func(_, watcher *wire) {
			for range 5 {
				watcher.set(true)
				time.Sleep(20 * time.Second)
				watcher.set(false)
				time.Sleep(5 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := new(checkpoint.Memory)
				a, owner := beating(m, "a", nil)
				b, watcher := beating(m, "b", nil)
				held := own(t, a, "s")
				done := make(chan struct{})
				go func() {
					defer close(done)
					events(owner, watcher)
				}()
				for over := false; !over; {
					select {
					case <-done:
						over = true
					case <-time.After(time.Second):
					}
					if b.Watch(); b.Stopped("a") {
						t.Error("taken for dead")
						<-done
						return
					}
				}
				held.Done()
			})
		})
	}
}

// A process that has no calls is silent, and nothing of it is left that others would watch.
func TestIdleProcessRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, w := beating(m, "a", nil)
		for range 1000 { // turns are shorter than the time to the first beat
			own(t, a, "s").Done()
		}
		if time.Sleep(10 * time.Second); w.beats() > 1 {
			t.Errorf("%d beats for a moment's work", w.beats())
		}
		s := own(t, a, "s")
		if time.Sleep(10 * time.Second); w.beats() < 9 || w.beats() > 12 {
			t.Errorf("%d beats in 10 s", w.beats())
		}
		s.Done()
		time.Sleep(5 * time.Second)
		if beats, err := m.Beat(t.Context(), ""); err != nil || len(beats) > 0 {
			t.Errorf("%v beat: %v", beats, err)
		}
		before := w.beats()
		if time.Sleep(time.Minute); w.beats() != before {
			t.Errorf("%d beats of an idle process", w.beats()-before)
		}
	})
}

// What is taken is taken from the owner that was seen, and not from the next one.
func TestTakenByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, dying := beating(m, "a", nil)
		var waiting []*Process
		for _, name := range []string{"b", "c", "d"} {
			p, _ := beating(m, name, nil)
			waiting = append(waiting, p)
		}
		own(t, a, "s")
		time.Sleep(2 * time.Second)
		dying.set(true)
		var wg sync.WaitGroup
		var mu sync.Mutex
		froms := map[string]int{}
		for _, p := range waiting {
			wg.Go(func() {
				s := own(t, p, "s")
				mu.Lock()
				froms[s.From]++
				mu.Unlock()
				time.Sleep(5 * time.Second)
				if err := s.Lost(); err != nil {
					t.Error(err)
				}
				s.Done()
			})
		}
		wg.Wait()
		if froms["a"] != 1 || froms[""] != 2 {
			t.Errorf("taken from %v", froms)
		}
	})
}

// forbidden is a store whose role lacks a right.
type forbidden struct{ *checkpoint.Memory }

type noRight struct{}

func (noRight) Error() string    { return "permission denied" }
func (noRight) SQLState() string { return "42501" }

func (forbidden) Claim(context.Context, checkpoint.Key, checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return checkpoint.Claimed{}, fmt.Errorf("%w: %w", checkpoint.ErrRefused, noRight{})
}

// A store that is away is waited for. A right that is missing is not.
func TestMissingRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Session
		p := process(forbidden{new(checkpoint.Memory)})
		began := time.Now()
		err := s.Acquire(t.Context(), p, "s", p.row("s"), true)
		if waited := time.Since(began); !errors.Is(err, ErrUnavailable) || waited > 0 {
			t.Errorf("%v after %v", err, waited)
		}
	})
}

// Two wait for the lock that a dead process has left. The first gets the session without the lock, so nobody tells the
// second when it is free. The second asks again.
func TestTwoWaitForADeadLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, locker := new(checkpoint.Memory), new(lock.Memory)
		a, dying := beating(m, "a", locker)
		own(t, a, "s")
		time.Sleep(2 * time.Second)
		dying.set(true)
		died := time.Now()
		var wg sync.WaitGroup
		for _, name := range []string{"b", "c"} {
			p, _ := beating(m, name, locker)
			wg.Go(func() {
				own(t, p, "s").Done()
				if took := time.Since(died); took > 10*time.Second {
					t.Errorf("%s is served after %v", name, took)
				}
			})
		}
		wg.Wait()
	})
}

// A process that has shut down is silent, and forgotten.
func TestSilentAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, _ := beating(m, "a", nil)
		s := own(t, a, "s")
		time.Sleep(5 * time.Second)
		s.Done()
		<-a.Close()
		a.Rest()
		time.Sleep(10 * time.Second)
		if beats, err := m.Beat(t.Context(), ""); err != nil || len(beats) > 0 {
			t.Errorf("%v beat: %v", beats, err)
		}
	})
}

// A role without rights to the beats is as good as a store without beats. A process with such a role is silent when its
// calls are over.
func TestBeatsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		p, w := beating(m, "a", nil)
		w.refuses = true
		s := own(t, p, "s")
		time.Sleep(10 * time.Second)
		s.Done()
		time.Sleep(10 * time.Second)
		asked := w.asked()
		time.Sleep(time.Hour)
		if more := w.asked() - asked; more > 0 {
			t.Errorf("%d calls for beats in an hour without calls", more)
		}
	})
}

// A process that cannot tell the store of its rest gives up in the end.
func TestRestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := beating(new(checkpoint.Memory), "a", nil)
		s := own(t, p, "s")
		time.Sleep(10 * time.Second)
		s.Done()
		w.set(true)
		time.Sleep(time.Hour)
		asked := w.asked()
		time.Sleep(time.Hour)
		if more := w.asked() - asked; more > 0 || asked > 200 {
			t.Errorf("%d calls for beats, then %d in an hour without calls", asked, more)
		}
	})
}

// A process takes a session only if it is still wanted: the claim is refused in favour of another owner by then, which
// may be at work on something else.
func TestTakeAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, _ := beating(m, "a", nil)
		b, _ := beating(m, "b", nil)
		held := own(t, a, "s")
		var taker Session
		if err := taker.Enter(t.Context(), b, "s", b.row("s")); err != nil {
			t.Fatal(err)
		}
		defer taker.Undo()
		asked := 0
		taken, err := taker.Take(func() (bool, error) {
			if asked++; asked == 1 { // the owner changes between the look and the claim
				held.Done()
				held = own(t, a, "s")
				return true, nil
			}
			return false, nil
		})
		if taken || err != nil || asked != 2 {
			t.Errorf("taken %t, %v, after %d questions", taken, err, asked)
		}
		l := checkpoint.Lease{Key: key("s"), Fence: held.fence}
		if err := m.Mark(context.Background(), l, checkpoint.Marks{}); err != nil {
			t.Errorf("the new owner is fenced off: %v", err)
		}
		held.Done()
	})
}
