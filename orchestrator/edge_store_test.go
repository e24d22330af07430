package orchestrator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Answers of stores, at unusual times, that the engine must not mistake.

// slowly is a checkpoint store whose answers come late.
type slowly struct {
	checkpoint.Store
	claim, renew time.Duration
	renewals     atomic.Int64
}

func (s *slowly) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	time.Sleep(s.claim)
	return c, err
}

func (s *slowly) Renew(ctx context.Context, ttl time.Duration, leases []checkpoint.Lease) ([]checkpoint.Lease, error) {
	if s.renewals.Add(1) > 1 {
		return nil, errors.New("no route to host")
	}
	lost, err := s.Store.Renew(ctx, ttl, leases)
	time.Sleep(s.renew)
	return lost, err
}

// A lease counts from when it was requested. If it is granted too late, nothing runs.
func TestLeaseCountsFromAsking(t *testing.T) {
	const ttl = 8 * time.Second
	t.Run("claim", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ran := false
			d := echo()
			d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { ran = true; return nil }}
			w := worldOf(&slowly{Store: new(checkpoint.Memory), claim: ttl}, new(snapshot.Memory))
			_, err := w.Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: ttl}}).Execute(t.Context(), "s",
				Input{Text: "a"}, nil)
			wantErr(t, err, lock.ErrExpired)
			if ran {
				t.Error("it runs")
			}
		})
	})
	t.Run("renewal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := worldOf(&slowly{Store: new(checkpoint.Memory), renew: 4 * time.Second}, new(snapshot.Memory))
			d := echo()
			var ended time.Duration
			start := time.Now()
			d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
				<-ctx.Done()
				ended = time.Since(start)
				return ctx.Err()
			}}
			_, err := w.Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: ttl}}).Execute(t.Context(), "s",
				Input{Text: "a"}, nil)
			wantErr(t, err, lock.ErrExpired)
			if ended > ttl/3+ttl { // the renewal was sent after a third
				t.Errorf("it went on for %v", ended)
			}
		})
	})
}

// The caller gets the error of a failed intent also if the turn's time is over.
func TestIntentErrorAtTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		d := echo()
		d.Intents["echo"] = Intent{
			Retry: retry.Policy{Attempts: 2},
			Run:   func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return boom },
		}
		bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{TurnTimeout: time.Second}})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
		wantErr(t, err, boom)
	})
}

// Two turns are owed. The delivery of the first takes longer than the lease. The next owner delivers the second.
func TestDeliversNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		fail, calls := errors.New("down"), 0
		d := echo()
		d.Deliver = func(context.Context, *Result) error {
			if calls++; fail == nil {
				time.Sleep(2 * ttl)
			}
			return fail
		}
		store := new(checkpoint.Memory)
		execute(t, worldOf(store, nil).Start(t, d, Options{}), Input{Text: "a"})
		if calls != 1 {
			t.Fatalf("%d calls", calls)
		}
		fail, calls = nil, 0
		late := worldOf(unrenewed(store), nil).Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: ttl}})
		if _, err := late.Execute(t.Context(), "s", Input{Text: "b"}, nil); err == nil {
			t.Error("it settles")
		}
		if calls != 1 {
			t.Errorf("%d deliveries", calls)
		}
	})
}

// If a call has failed to deliver once, it does not try again after its own turn.
func TestDeliversOnceACall(t *testing.T) {
	calls := 0
	d := echo()
	d.Deliver = func(context.Context, *Result) error { calls++; return errors.New("down") }
	bot := newWorld().Start(t, d, Options{})
	for n := range 3 {
		execute(t, bot, Input{Text: "a"})
		if calls != n+1 {
			t.Errorf("%d calls of the hook by %d turns", calls, n+1)
		}
	}
}

// A repeated request whose run is of another definition may be settled by a process that knows it.
func TestOwnDriftIsUnknown(t *testing.T) {
	w := newWorld()
	in := Input{Text: "a", RequestID: "r"}
	w.Crash(t, steps, in)
	_, err := w.Start(t, unrelated(func(*Def) {}), Options{}).Execute(t.Context(), "s", in, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// A branch that fails beside one that does not fails the turn.
func TestOneBranchFails(t *testing.T) {
	boom := errors.New("boom")
	bot := newWorld().Start(t, fork(func(_ context.Context, name string, _ *Turn) error {
		if name == "b" {
			return boom
		}
		return nil
	}), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
	wantErr(t, err, boom)
	if got := turns(t, bot); len(got) != 0 {
		t.Errorf("turns %q", got)
	}
}

// A branch whose save fails ends its sibling: the turn does not go on unsaved. If the save was fenced, the sibling's
// context says so.
func TestUnsavedBranchStops(t *testing.T) {
	for name, c := range map[string]struct{ verdict, cause error }{
		"unanswered": {errFull, context.Canceled}, "fenced": {lock.ErrFenced, lock.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.Fail(c.verdict, "Save"))
			var cause error
			there := make(chan struct{})
			bot := w.Start(t, fork(func(ctx context.Context, name string, _ *Turn) error {
				if name == "b" {
					close(there)
					<-ctx.Done()
					cause = context.Cause(ctx)
					return ctx.Err()
				}
				<-there
				return nil
			}), Options{Limits: orchestrator.Limits{SettleTimeout: 20 * time.Millisecond}})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate, c.verdict)
			wantErr(t, cause, c.cause)
			if got := turns(t, bot); len(got) != 0 {
				t.Errorf("turns %q", got)
			}
		})
	}
}
