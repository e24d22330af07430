package faulttest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// A loan is a Memory that knows the latest lease of each session, so that a broken store can use that lease.
type loan struct {
	checkpoint.Store

	mu     sync.Mutex
	latest map[checkpoint.Key]checkpoint.Lease
}

func newLoan() *loan {
	return &loan{Store: new(checkpoint.Memory), latest: map[checkpoint.Key]checkpoint.Lease{}}
}

func (s *loan) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.latest[k] = c.Lease
	}
	return c, err
}

func (s *loan) owner(k checkpoint.Key) checkpoint.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest[k]
}

// others lets other goroutines run, as a round trip or an fsync would.
func others() {
	for range 30 {
		runtime.Gosched()
	}
}

// checksFirst checks the fence in one step and writes in another: WHERE EXISTS without a lock.
type checksFirst struct{ *loan }

func (s checksFirst) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	if s.owner(l.Key) == l {
		others()
		l = s.owner(l.Key)
	}
	return s.Store.Append(ctx, l, cp, o)
}

// atLeast accepts a fence if the latest one is greater or equal.
type atLeast struct{ *loan }

func (s atLeast) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	if latest := s.owner(l.Key); latest.Fence.Epoch >= l.Fence.Epoch {
		l = latest
	}
	return s.Store.Append(ctx, l, cp, o)
}

// epochOnly compares epochs and ignores nonces. A release changes only the nonce, so the lease stays valid.
type epochOnly struct {
	*loan
	released *sync.Map // by key
}

func (s epochOnly) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if _, ok := s.released.LoadAndDelete(k); ok {
		r.From = s.owner(k).Fence
	}
	return s.Store.Claim(ctx, k, r)
}

func (s epochOnly) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	release := o.Release
	o.Release = false
	err := s.Store.Append(ctx, l, cp, o)
	if err == nil && release {
		s.released.Store(l.Key, true)
	}
	return err
}

func (s epochOnly) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	release := m.Release
	m.Release = false
	err := s.Store.Mark(ctx, l, m)
	if err == nil && release {
		s.released.Store(l.Key, true)
	}
	if release && m == (checkpoint.Marks{}) {
		return nil
	}
	return err
}

// staleLoad reads the newest turn before the claim has waited for the session.
type staleLoad struct{ checkpoint.Store }

func (s staleLoad) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	var last *checkpoint.Checkpoint
	if cp, err := checkpoint.Load(ctx, s.Store, k, checkpoint.Newest); err == nil {
		last = &cp
	}
	others()
	c, err := s.Store.Claim(ctx, k, r)
	c.Last = last
	return c, err
}

// heldByNobody refuses every second claim of a session, although the session has no owner.
type heldByNobody struct {
	checkpoint.Store
	claims *sync.Map
}

func (s heldByNobody) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if _, again := s.claims.LoadOrStore(k, true); again {
		s.claims.Delete(k)
		return checkpoint.Claimed{}, lock.ErrHeld
	}
	return s.Store.Claim(ctx, k, r)
}

// oneMore keeps one turn more than the caller asks for.
type oneMore struct{ checkpoint.Store }

func (s oneMore) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	if o.Keep > 0 && o.Keep < checkpoint.KeepAll {
		o.Keep++
	}
	return s.Store.Append(ctx, l, cp, o)
}

// prunesOwed hides an owed turn if it is older than the newest turns.
type prunesOwed struct {
	checkpoint.Store
	first map[checkpoint.Key]int
}

func (s prunesOwed) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	err := s.Store.Append(ctx, l, cp, o)
	if err == nil && o.Keep > 0 {
		s.first[l.Key] = max(s.first[l.Key], cp.Turn-o.Keep+1)
	}
	return err
}

func (s prunesOwed) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for cp, err := range s.Store.Turns(ctx, k, from) {
			if cp.Turn < s.first[k] || !yield(cp, err) {
				return
			}
		}
	}
}

// forgetsEpochs counts the epochs of a session from 1 again after Delete.
type forgetsEpochs struct {
	checkpoint.Store
	base map[checkpoint.Key]int64
}

func (s forgetsEpochs) meant(l checkpoint.Lease) checkpoint.Lease {
	l.Fence.Epoch += s.base[l.Key]
	return l
}

func (s forgetsEpochs) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if r.From.Epoch != 0 {
		r.From.Epoch += s.base[k]
	}
	c, err := s.Store.Claim(ctx, k, r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok && held.Owner != "" {
		held.Fence.Epoch -= s.base[k]
	}
	if err == nil {
		s.base[k] = c.Born - 1
		c.Born, c.Fence.Epoch = 1, c.Fence.Epoch-s.base[k]
	}
	return c, err
}

func (s forgetsEpochs) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	return s.Store.Append(ctx, s.meant(l), cp, o)
}

func (s forgetsEpochs) Delete(ctx context.Context, l checkpoint.Lease) error {
	return s.Store.Delete(ctx, s.meant(l))
}

func (s forgetsEpochs) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	return s.Store.Mark(ctx, s.meant(l), m)
}

func (s forgetsEpochs) Renew(ctx context.Context, ttl time.Duration, ls []checkpoint.Lease) ([]checkpoint.Lease,
	error,
) {
	inner := make([]checkpoint.Lease, len(ls))
	for i, l := range ls {
		inner[i] = s.meant(l)
	}
	lost, err := s.Store.Renew(ctx, ttl, inner)
	for i := range lost {
		lost[i].Fence.Epoch -= s.base[lost[i].Key]
	}
	return lost, err
}

// aliases keeps the caller's bytes and hands out its own.
type aliases struct {
	checkpoint.Store
	states map[string]json.RawMessage // by run
}

func (s aliases) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	err := s.Store.Append(ctx, l, cp, o)
	if err == nil {
		s.states[cp.RunID] = cp.State
	}
	return err
}

func (s aliases) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for cp, err := range s.Store.Turns(ctx, k, from) {
			cp.State = s.states[cp.RunID]
			if !yield(cp, err) {
				return
			}
		}
	}
}

// handsOutItsOwn copies the caller's bytes, but gives every reader the same bytes.
type handsOutItsOwn struct{ aliases }

func (s handsOutItsOwn) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	cp.State = slices.Clone(cp.State)
	return s.aliases.Append(ctx, l, cp, o)
}

// expires refuses the bearer of an expired lease although no other caller has taken the session.
type expires struct {
	checkpoint.Store
	until map[checkpoint.Lease]time.Time
}

func (s expires) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	s.until[c.Lease] = time.Now().Add(r.TTL)
	return c, err
}

func (s expires) Renew(ctx context.Context, ttl time.Duration, ls []checkpoint.Lease) ([]checkpoint.Lease, error) {
	for _, l := range ls {
		s.until[l] = time.Now().Add(ttl)
	}
	return s.Store.Renew(ctx, ttl, ls)
}

func (s expires) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint,
	o checkpoint.AppendOptions,
) error {
	if until, ok := s.until[l]; ok && time.Now().After(until) {
		return lock.ErrFenced
	}
	return s.Store.Append(ctx, l, cp, o)
}

// likes uses the prefix as a pattern of LIKE.
type likes struct{ checkpoint.Store }

func (s likes) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if i := strings.IndexAny(q.Prefix, "_%"); i >= 0 {
		q.Prefix = q.Prefix[:i]
	}
	return s.Store.Sessions(ctx, q)
}

// sweepsOwned retires every session, also one with an owner or an owed reply.
type sweepsOwned struct {
	checkpoint.Store
	claimed map[checkpoint.Key]checkpoint.Lease
}

func (s sweepsOwned) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if err == nil {
		s.claimed[k] = c.Lease
	}
	return c, err
}

func (s sweepsOwned) Sweep(ctx context.Context, limit int) (int, error) {
	for _, k := range slices.Collect(maps.Keys(s.claimed)) {
		if err := s.Store.Delete(ctx, s.claimed[k]); err != nil {
			return 0, err
		}
		delete(s.claimed, k)
		if limit == 1 {
			return 1, nil
		}
	}
	return len(s.claimed), nil
}

// loses reports a live lease as lost at each renewal. forgives reports no lease as lost.
type loses struct{ checkpoint.Store }

func (s loses) Renew(ctx context.Context, ttl time.Duration, ls []checkpoint.Lease) ([]checkpoint.Lease, error) {
	lost, err := s.Store.Renew(ctx, ttl, ls[1:])
	return append(lost, ls[0]), err
}

type forgives struct{ checkpoint.Store }

func (s forgives) Renew(ctx context.Context, ttl time.Duration, ls []checkpoint.Lease) ([]checkpoint.Lease, error) {
	_, err := s.Store.Renew(ctx, ttl, ls)
	return nil, err
}

func newEpochOnly() checkpoint.Store { return epochOnly{newLoan(), new(sync.Map)} }

func newAliases() aliases { return aliases{new(checkpoint.Memory), map[string]json.RawMessage{}} }

func TestHistoriesConvict(t *testing.T) {
	for name, broken := range map[string]func() checkpoint.Store{
		"checks first":    func() checkpoint.Store { return checksFirst{newLoan()} },
		"at least":        func() checkpoint.Store { return atLeast{newLoan()} },
		"epoch only":      newEpochOnly,
		"stale load":      func() checkpoint.Store { return staleLoad{new(checkpoint.Memory)} },
		"held by nobody":  func() checkpoint.Store { return heldByNobody{new(checkpoint.Memory), new(sync.Map)} },
		"from anybody":    func() checkpoint.Store { return fromAnybody{newLoan()} },
		"looks From":      func() checkpoint.Store { return looksFrom{newLoan()} },
		"names asked":     func() checkpoint.Store { return namesAsked{newLoan()} },
		"deletes any":     func() checkpoint.Store { return deletesAny{newLoan()} },
		"looks to delete": func() checkpoint.Store { return looksToDelete{newLoan()} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) { // on a busy machine few calls meet
				illegal, ops, err := IllegalHistories(t.Context(), broken(), 200, 1+200*seed)
				if err != nil {
					t.Fatal(err)
				}
				if t.Logf("%d of 200 histories are illegal (%d calls)", illegal, ops); illegal > 0 {
					return
				}
			}
			t.Error("no history is illegal")
		})
	}
}

func TestModelConvicts(t *testing.T) {
	memory := func() checkpoint.Store { return new(checkpoint.Memory) }
	for name, broken := range map[string]func() checkpoint.Store{
		"one more":          func() checkpoint.Store { return oneMore{memory()} },
		"prunes owed":       func() checkpoint.Store { return prunesOwed{memory(), map[checkpoint.Key]int{}} },
		"forgets epochs":    func() checkpoint.Store { return forgetsEpochs{memory(), map[checkpoint.Key]int64{}} },
		"aliases":           func() checkpoint.Store { return newAliases() },
		"hands out its own": func() checkpoint.Store { return handsOutItsOwn{newAliases()} },
		"epoch only":        newEpochOnly,
		"expires":           func() checkpoint.Store { return expires{memory(), map[checkpoint.Lease]time.Time{}} },
		"likes":             func() checkpoint.Store { return likes{memory()} },
		"at least":          func() checkpoint.Store { return atLeast{newLoan()} },
		"forgives":          func() checkpoint.Store { return forgives{memory()} },
		"from anybody":      func() checkpoint.Store { return fromAnybody{newLoan()} },
		"names asked":       func() checkpoint.Store { return namesAsked{newLoan()} },
		"names nobody":      func() checkpoint.Store { return namesNobody{memory()} },
		"deletes any":       func() checkpoint.Store { return deletesAny{newLoan()} },
		"never due":         func() checkpoint.Store { return neverDue{memory()} },
		"always due":        func() checkpoint.Store { return alwaysDue{memory()} },
		"counts always":     func() checkpoint.Store { return countsAlways{memory(), map[checkpoint.Key]int{}} },
		"keeps holding":     func() checkpoint.Store { return keepsHolding{memory()} },
	} {
		t.Run(name, func(t *testing.T) { wantDifference(t, 0, broken) })
	}
	t.Run("sweeps owned", func(t *testing.T) {
		wantDifference(t, short, func() checkpoint.Store {
			return sweepsOwned{&checkpoint.Memory{TTL: short}, map[checkpoint.Key]checkpoint.Lease{}}
		})
	})
}

// wantDifference follows the model with up to 100 seeds, the same in every run. One of them must show a difference.
func wantDifference(t *testing.T, ttl time.Duration, broken func() checkpoint.Store) {
	t.Helper()
	for seed := range 100 {
		if err := followModel(t.Context(), broken(), ttl, seed, 40); err != nil {
			t.Log(err)
			return
		}
	}
	t.Error("not convicted")
}

func TestModelAcquitsMemory(t *testing.T) {
	for seed := range 100 {
		if err := followModel(t.Context(), new(checkpoint.Memory), 0, seed, 40); err != nil {
			t.Error(err)
		}
	}
}

func TestRenewUnderLoadConvicts(t *testing.T) {
	for name, s := range map[string]checkpoint.Store{
		"loses":    loses{new(checkpoint.Memory)},
		"forgives": forgives{new(checkpoint.Memory)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := renewUnderLoad(t.Context(), s, 100); err == nil {
				t.Error("not convicted")
			} else {
				t.Log(err)
			}
		})
	}
}
