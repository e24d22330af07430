package faulttest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	long  = time.Hour        // no lease of this length ends while a test runs
	short = time.Millisecond // a lease of this length may be over at any time
)

// CheckpointModel compares a store with a model of the contract. One caller with many leases makes random histories.
// The check stops after 1 s or rapid's number of checks, with HOLDFAST_SOAK=1 after 40 s. If it fails, rapid makes the
// failure as short as it can and prints how to reproduce it.
func CheckpointModel(t *testing.T, newStore func(*testing.T) checkpoint.Store) {
	t.Helper()
	checkModel(t, newStore(t), 0)
}

// CheckpointSweepModel is [CheckpointModel] for a [checkpoint.Sweeper]. Its sessions are idle after ttl.
func CheckpointSweepModel(t *testing.T, newStore func(t *testing.T, ttl time.Duration) checkpoint.Store) {
	t.Helper()
	checkModel(t, newStore(t, short), short)
}

// CheckpointUnsettledModel is [CheckpointModel] for a [checkpoint.Sweeper] in which only sessions without a settled
// turn are ever idle: after the given time.
func CheckpointUnsettledModel(t *testing.T, newStore func(t *testing.T, unsettled time.Duration) checkpoint.Store) {
	t.Helper()
	s := newStore(t, short)
	checkMachine(t, short, func(ids []string) *machine {
		m := newMachine(s, short, ids)
		m.settledStay = true
		return m
	})
}

func checkModel(t *testing.T, s checkpoint.Store, ttl time.Duration) {
	t.Helper()
	checkMachine(t, ttl, func(ids []string) *machine { return newMachine(s, ttl, ids) })
}

func checkMachine(t *testing.T, ttl time.Duration, start func(ids []string) *machine) {
	t.Helper()
	checkWithin(t, func(rt *rapid.T) {
		m := start(sessionIDs.Draw(rt, "sessions"))
		next := actions(ttl > 0)
		rt.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "call": func(rt *rapid.T) {
			if err := m.do(rt.Context(), next.Draw(rt, "call")); err != nil {
				rt.Fatal(err)
			}
		}})
		if err := m.compareAll(rt.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

// checkWithin is rapid.Check with a budget of time. The time to shorten a failure does not count.
func checkWithin(t *testing.T, f func(*rapid.T)) {
	t.Helper()
	budget := time.Second
	if soak() {
		budget *= 40
	}
	start, failed, done := time.Now(), false, 0
	check := func(rt *rapid.T) {
		if !failed && time.Since(start) > budget {
			return
		}
		passed := false
		defer func() { failed = failed || !passed }()
		f(rt)
		passed = true
		done++
	}
	for rapid.Check(t, check); soak() && time.Since(start) < budget; {
		rapid.Check(t, check)
	}
	t.Logf("%d histories followed the model in %v", done, time.Since(start))
}

// followModel makes n random calls and returns the first difference from the model. The seed fixes the calls.
func followModel(ctx context.Context, s checkpoint.Store, ttl time.Duration, seed, n int) error {
	m := newMachine(s, ttl, sessionIDs.Example(seed))
	next := actions(ttl > 0)
	for i := range n {
		if err := m.do(ctx, next.Example(seed*n+i)); err != nil {
			return fmt.Errorf("seed %d, call %d: %w", seed, i, err)
		}
	}
	return m.compareAll(ctx)
}

// A machine makes the calls of a history on a store, and on the model beside it.
type machine struct {
	store checkpoint.Store
	// ttl is the time after which sessions are idle; 0 if the store does not sweep.
	ttl time.Duration
	// settledStay says that only sessions without a settled turn are idle.
	settledStay  bool
	model        model
	orchestrator string
	ids          []string // of the sessions
	leases       map[string][]checkpoint.Lease
	settles      map[string][]settlement
	serial       int
}

// A settlement is the arguments of an Append.
type settlement struct {
	lease checkpoint.Lease
	turn  checkpoint.Checkpoint
	opts  checkpoint.AppendOptions
}

func newMachine(s checkpoint.Store, ttl time.Duration, ids []string) *machine {
	return &machine{
		store: s, ttl: ttl, model: newModel(), ids: ids,
		orchestrator: "model_% " + rand.Text(),
		leases:       map[string][]checkpoint.Lease{},
		settles:      map[string][]settlement{},
	}
}

func (m *machine) do(ctx context.Context, a action) error {
	if err := a.do(ctx, m); err != nil {
		return fmt.Errorf("%T%+v: %w", a, a, err)
	}
	return nil
}

func (m *machine) key(id string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: m.orchestrator, Session: id}
}

// fresh returns a name that is new in this history.
func (m *machine) fresh(prefix string) string {
	m.serial++
	return prefix + strconv.Itoa(m.serial)
}

// lease returns the lease of id that was granted n leases before the latest, also in an earlier life.
func (m *machine) lease(id string, n int) (checkpoint.Lease, bool) {
	return nthLast(m.leases[id], n)
}

func nthLast[T any](all []T, n int) (T, bool) {
	if n < 0 || n >= len(all) {
		var none T
		return none, false
	}
	return all[len(all)-1-n], true
}

// pass waits until, on the store's clock, every lease of length d so far and every Retry after d is over. It claims a
// session for d after all of them. When another caller can claim that session, all are over.
func (m *machine) pass(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	k := checkpoint.Key{Orchestrator: m.orchestrator + " clock", Session: m.fresh("s")}
	r := checkpoint.ClaimRequest{Owner: "clock", Nonce: "before", TTL: d}
	if _, err := m.store.Claim(ctx, k, r); err != nil {
		return err
	}
	r.Nonce = "after"
	c, err := m.store.Claim(ctx, k, r)
	for errors.Is(err, lock.ErrHeld) {
		runtime.Gosched()
		c, err = m.store.Claim(ctx, k, r)
	}
	if err != nil {
		return fmt.Errorf("waiting for a lease of %v to end: %w", d, err)
	}
	m.model.expire()
	return m.store.Delete(ctx, c.Lease)
}

// compareAll compares all data that a caller can read.
func (m *machine) compareAll(ctx context.Context) error {
	for _, id := range m.ids {
		if err := m.compareTurns(ctx, id, checkpoint.Newest, -1); err != nil {
			return err
		}
	}
	for _, label := range labels {
		q := checkpoint.SessionQuery{Label: label}
		for days := range 3 {
			q.By = day(days)
			if err := m.compareList(ctx, q); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		m.compareList(ctx, checkpoint.SessionQuery{}),
		m.compareList(ctx, checkpoint.SessionQuery{Owing: true}),
		m.compareList(ctx, checkpoint.SessionQuery{Owing: true, Due: true}))
}

// compareTurns compares the turns of id: at most n of them, or all if n is negative.
func (m *machine) compareTurns(ctx context.Context, id string, from, n int) error {
	want := m.model.from(id, from)
	if n >= 0 {
		want = want[:min(n, len(want))]
	}
	var got []*checkpoint.Checkpoint
	for cp, err := range m.store.Turns(ctx, m.key(id), from) {
		if err != nil {
			return fmt.Errorf("turns of %q from %d: %w", id, from, err)
		}
		if len(got) == n {
			break
		}
		got = append(got, &cp)
	}
	if err := sameTurns(got, want); err != nil {
		return fmt.Errorf("turns of %q from %d: %w", id, from, err)
	}
	return nil
}

func (m *machine) compareList(ctx context.Context, q checkpoint.SessionQuery) error {
	q.Orchestrator = m.orchestrator
	got := []string{}
	for id, err := range m.store.Sessions(ctx, q) {
		if err != nil {
			return fmt.Errorf("%+v: %w", q, err)
		}
		got = append(got, id)
	}
	return m.model.listed(q, got)
}
