package faulttest

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// RenewUnderLoad claims that many sessions. Two callers renew all leases again and again, in any order, while other
// callers append, mark and steal. A lease that was not stolen must never be reported lost. A lease that was stolen
// before a renewal began must be. The test ends when the other callers have been through all sessions.
func RenewUnderLoad(t *testing.T, newStore func(*testing.T) checkpoint.Store, leases int) {
	t.Helper()
	if err := renewUnderLoad(t.Context(), newStore(t), leases); err != nil {
		t.Error(err)
	}
}

// Each renewer goes on while there is traffic, within these bounds. On a store with one writer, renewals slow down the
// traffic.
const (
	minRenewals = 3
	maxRenewals = 8
)

// A fleet is the leases of one process. One third appends, one third is marked, and one third is stolen.
type fleet struct {
	store  checkpoint.Store
	leases []checkpoint.Lease
	order  map[checkpoint.Lease]int // the inverse of leases
	steals []steal                  // by lease
}

// A steal is under way from asked until taken, and done after it.
type steal struct{ asked, taken atomic.Bool }

func renewUnderLoad(ctx context.Context, s checkpoint.Store, leases int) error {
	f := &fleet{
		store: s, leases: make([]checkpoint.Lease, leases), order: map[checkpoint.Lease]int{},
		steals: make([]steal, leases),
	}
	orchestrator := "renew " + crand.Text()
	err := inParallel(leases, func(i int) (err error) {
		k := checkpoint.Key{Orchestrator: orchestrator, Session: fmt.Sprint("s", i)}
		f.leases[i], err = f.claim(ctx, k, "n", lock.Fence{})
		return err
	})
	if err != nil {
		return err
	}
	for i, l := range f.leases {
		f.order[l] = i
	}
	traffic := make(chan struct{})
	var wg sync.WaitGroup
	var errs [3]error
	for i := range 2 {
		wg.Go(func() { errs[i] = f.renewUntil(ctx, traffic) })
	}
	errs[2] = inParallel(leases, func(i int) error { return f.use(ctx, i) })
	close(traffic)
	wg.Wait()
	return errors.Join(append(errs[:], f.renew(ctx))...)
}

// inParallel calls do for each i below n, four at a time.
func inParallel(n int, do func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, 4)
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *fleet) claim(ctx context.Context, k checkpoint.Key, nonce string, from lock.Fence) (checkpoint.Lease, error) {
	c, err := f.store.Claim(ctx, k, checkpoint.ClaimRequest{Owner: "o", Nonce: nonce, TTL: long, From: from})
	return c.Lease, err
}

func (f *fleet) use(ctx context.Context, i int) error {
	l := f.leases[i]
	switch i % 3 {
	case 0:
		for turn := range 2 {
			cp := checkpoint.Checkpoint{Turn: turn, State: json.RawMessage(`{"n":1}`), RunID: fmt.Sprint("r", turn)}
			if err := f.store.Append(ctx, l, cp, checkpoint.AppendOptions{Keep: 1}); err != nil {
				return fmt.Errorf("append to %q: %w", l.Session, err)
			}
		}
	case 1:
		if err := f.store.Mark(ctx, l, checkpoint.Marks{Summarized: 1, Delivered: 1}); err != nil {
			return fmt.Errorf("mark %q: %w", l.Session, err)
		}
	default:
		f.steals[i].asked.Store(true)
		if _, err := f.claim(ctx, l.Key, "thief", l.Fence); err != nil {
			return fmt.Errorf("steal %q: %w", l.Session, err)
		}
		f.steals[i].taken.Store(true)
	}
	return nil
}

func (f *fleet) renewUntil(ctx context.Context, done <-chan struct{}) error {
	for round := range maxRenewals {
		select {
		case <-done:
			if round >= minRenewals {
				return nil
			}
		default:
		}
		if err := f.renew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew renews all leases in one call. It compares the lost leases with those stolen before and during the call.
func (f *fleet) renew(ctx context.Context) error {
	leases := slices.Clone(f.leases)
	rand.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	before := make([]bool, len(f.leases))
	for i := range before {
		before[i] = f.steals[i].taken.Load()
	}
	lost, err := f.store.Renew(ctx, long, leases)
	if err != nil {
		return fmt.Errorf("renew %d leases: %w", len(leases), err)
	}
	reported := make([]bool, len(f.leases))
	for _, l := range lost {
		i, ok := f.order[l]
		if !ok || reported[i] {
			return fmt.Errorf("renew reports %v, which it was not asked about or reported before", l)
		}
		reported[i] = true
	}
	for i, l := range f.leases {
		switch {
		case reported[i] && !f.steals[i].asked.Load():
			return fmt.Errorf("lease %d on %q is live and reported lost", i, l.Session)
		case before[i] && !reported[i]:
			return fmt.Errorf("lease %d on %q was stolen before and not reported lost", i, l.Session)
		}
	}
	return nil
}
