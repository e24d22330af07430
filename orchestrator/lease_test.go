package orchestrator_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A renewer is a store whose Renew can be made to fail.
type renewer struct {
	checkpoint.Store
	calls atomic.Int32
	fail  func(leases []checkpoint.Lease) error
}

func (r *renewer) Renew(ctx context.Context, ttl time.Duration, leases []checkpoint.Lease) ([]checkpoint.Lease, error) {
	r.calls.Add(1)
	if r.fail != nil {
		if err := r.fail(leases); err != nil {
			return nil, err
		}
	}
	return r.Store.Renew(ctx, ttl, leases)
}

// inTurns lets n sessions of a bot hang, each in a turn. After stop, it returns their outcomes.
func inTurns(t *testing.T, bot *Bot, started <-chan struct{}, n int, name func(int) string) (stop func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = bot.Execute(ctx, name(i), Input{}, nil) })
		<-started
	}
	return func() []error {
		cancel()
		wg.Wait()
		return errs
	}
}

// One statement renews all leases of an orchestrator, every third of their time. Without a lease, there is no
// statement.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		store := &renewer{Store: w.Checkpoints}
		w.Checkpoints = store
		d, started := hanging()
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: 30 * time.Second}})
		const n = 200
		stop := inTurns(t, bot, started, n, func(i int) string { return "s" + string(rune('a'+i)) })
		synctest.Wait()
		before := bubble.Goroutines(t)
		time.Sleep(5*time.Minute + time.Second)
		if got := store.calls.Load(); got != 30 {
			t.Errorf("%d renewals in five minutes, want 30", got)
		}
		if more := bubble.Goroutines(t) - before; more > 0 {
			t.Errorf("%d goroutines more while leases are renewed", more)
		}
		for _, err := range stop() {
			wantErr(t, err, context.Canceled)
			if errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost) {
				t.Error(err)
			}
		}
		renewed := store.calls.Load()
		time.Sleep(time.Hour)
		if got := store.calls.Load(); got != renewed {
			t.Errorf("%d renewals of nothing", got-renewed)
		}
	})
}

// A locked row costs only its own lease.
func TestRenewalOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		locked := errors.New("row is locked")
		w.Checkpoints = &renewer{Store: w.Checkpoints, fail: func(leases []checkpoint.Lease) error {
			for _, l := range leases {
				if l.Session == "b" {
					return locked
				}
			}
			return nil
		}}
		d, started := hanging()
		bot := w.Start(t, d, Options{})
		stop := inTurns(t, bot, started, 3, func(i int) string { return string(rune('a' + i)) })
		time.Sleep(time.Minute)
		errs := stop()
		wantErr(t, errs[1], lock.ErrExpired, orchestrator.ErrIndeterminate)
		for _, i := range []int{0, 2} {
			if errors.Is(errs[i], lock.ErrExpired) {
				t.Errorf("%d: %v", i, errs[i])
			}
		}
	})
}

// Without a good renewal, no function of a turn runs past its local deadline, which is before the server's end of the
// lease.
func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		w := newWorld()
		w.Checkpoints = &renewer{
			Store: w.Checkpoints,
			fail:  func([]checkpoint.Lease) error { return errors.New("down") },
		}
		var ended time.Time
		d := echoAs("hang")
		d.Intents["hang"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
			<-ctx.Done()
			ended = time.Now()
			return context.Cause(ctx)
		}}
		start := time.Now()
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: ttl}})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, lock.ErrExpired, orchestrator.ErrIndeterminate)
		if took := ended.Sub(start); took >= ttl || took < ttl/2 {
			t.Errorf("ended after %v of %v", took, ttl)
		}
		if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Running {
			t.Errorf("an expired owner has written %s", run.Status)
		}
	})
}

// A process that was stopped finds out by itself, before it settles, that its time is over.
func TestStoppedPastDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asleep := make(chan struct{})
		w.Checkpoints = &renewer{
			Store: w.Checkpoints,
			fail:  func([]checkpoint.Lease) error { <-asleep; return errors.New("stopped") },
		}
		d := echoAs("work")
		d.Intents["work"] = Intent{Run: func(context.Context, *Turn) error { time.Sleep(time.Hour); return nil }}
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 2 * time.Hour}})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, lock.ErrExpired, orchestrator.ErrIndeterminate)
		close(asleep)
		if got := turns(t, bot); len(got) != 0 {
			t.Errorf("turns %q", got)
		}
	})
}

// If a store fences a call, the turn is over at once: no more writes, and no caller is told that the turn failed.
func TestFenced(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, steps(func() { takeAway(t, w, "steps") }), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
	wantErr(t, err, lock.ErrFenced, orchestrator.ErrIndeterminate)
	run := wantRuns(t, bot, 1)[0]
	if run.Status != snapshot.Running || run.Seq != 1 {
		t.Errorf("after it was fenced off the run is %s, seq %d", run.Status, run.Seq)
	}
}

// takeAway lets a newer owner adopt the run in flight. That owner then dies.
func takeAway(t *testing.T, w world, name string) {
	k := checkpoint.Key{Orchestrator: name, Session: "s"}
	c, err := seize(t.Context(), w.Checkpoints, k, "newer", time.Minute)
	if err == nil {
		_, err = w.Snapshots.Adopt(t.Context(), k, c.Fence, 9)
	}
	if err != nil {
		t.Error(err)
	}
}

// If a lock is lost, no turn ends: the lease counts. If a locker is down, it keeps no caller out.
func TestLockerIsForEconomy(t *testing.T) {
	for name, l := range map[string]lock.Locker{"lost": new(losing), "down": down{}} {
		w := newWorld()
		bot := w.Start(t, echo(), Options{Locker: l})
		wantSaid(t, execute(t, bot, Input{Text: name}).State, name)
	}
}

// losing grants locks that are lost at once.
type losing struct{ lock.Memory }

func (*losing) Lock(ctx context.Context, _ string) (context.Context, func(), error) {
	held, cancel := context.WithCancelCause(ctx)
	cancel(lock.ErrLost)
	return held, func() {}, nil
}

// down is a locker whose server is down.
type down struct{}

func (down) Lock(context.Context, string) (context.Context, func(), error) {
	return nil, nil, errors.New("connection refused")
}

func (d down) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	return d.Lock(ctx, key)
}
