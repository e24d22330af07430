package checkpointtest_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

// A damageable store is Memory with sessions and turns that it cannot read.
type damageable struct {
	*checkpoint.Memory
	heads map[checkpoint.Key]error
	turns map[checkpoint.Key]map[int]bool
}

func newDamageable() damageable {
	return damageable{new(checkpoint.Memory), make(map[checkpoint.Key]error), make(map[checkpoint.Key]map[int]bool)}
}

var errSpoiled = errors.New("it was spoiled")

func (d damageable) DamageHead(_ context.Context, k checkpoint.Key) error {
	d.heads[k] = errSpoiled
	return nil
}

func (d damageable) LoseHead(_ context.Context, k checkpoint.Key) error {
	d.heads[k] = checkpoint.ErrNoHead
	return nil
}

func (d damageable) DamageTurn(_ context.Context, k checkpoint.Key, turn int) error {
	if d.turns[k] == nil {
		d.turns[k] = make(map[int]bool)
	}
	d.turns[k][turn] = true
	return nil
}

func (d damageable) head(k checkpoint.Key) error {
	if d.heads[k] == nil {
		return nil
	}
	return checkpoint.Damaged(k, d.heads[k])
}

func (d damageable) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	if err := d.head(k); err != nil {
		return checkpoint.Head{}, err
	}
	return d.Memory.Head(ctx, k)
}

func (d damageable) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	lease := checkpoint.Claimed{Lease: checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: 1, Nonce: r.Nonce}}}
	if err := d.head(k); err != nil {
		return lease, err
	}
	c, err := d.Memory.Claim(ctx, k, r)
	if err == nil && c.Last != nil && d.turns[k][c.Last.Turn] {
		return checkpoint.Claimed{Lease: c.Lease}, checkpoint.DamagedTurn(k, c.Last.Turn, errSpoiled)
	}
	return c, err
}

func (d damageable) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if d.heads[l.Key] != nil {
		return lock.ErrFenced
	}
	return d.Memory.Append(ctx, l, cp, o)
}

func (d damageable) Delete(ctx context.Context, l checkpoint.Lease) error {
	if d.heads[l.Key] != nil {
		l = d.latest(ctx, l.Key)
	}
	err := d.Memory.Delete(ctx, l)
	if err == nil {
		delete(d.heads, l.Key)
		delete(d.turns, l.Key)
	}
	return err
}

// latest takes the session from every owner.
func (d damageable) latest(ctx context.Context, k checkpoint.Key) checkpoint.Lease {
	r := checkpoint.ClaimRequest{Owner: "undertaker", Nonce: "undertaker", TTL: time.Hour}
	c, err := d.Memory.Claim(ctx, k, r)
	if held, is := errors.AsType[*checkpoint.HeldError](err); is {
		r.From = held.Fence
		c, _ = d.Memory.Claim(ctx, k, r)
	}
	return c.Lease
}

func (d damageable) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for id, err := range d.Memory.Sessions(ctx, q) {
			if err == nil {
				err = d.head(checkpoint.Key{Orchestrator: q.Orchestrator, Session: id})
			}
			if !yield(id, err) {
				return
			}
		}
	}
}

func (d damageable) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for cp, err := range d.Memory.Turns(ctx, k, from) {
			if d.turns[k][cp.Turn] {
				cp, err = checkpoint.Checkpoint{Turn: cp.Turn}, checkpoint.DamagedTurn(k, cp.Turn, errSpoiled)
			}
			if !yield(cp, err) {
				return
			}
		}
	}
}

func TestDamageConvicts(t *testing.T) {
	type store = checkpointtest.DamagingStore
	for name, c := range map[string]struct {
		clause string
		broken func(damageable) store
	}{
		"stops at a damaged head":      {"sessions", func(d damageable) store { return stopsAtDamage{d} }},
		"hides a damaged head":         {"sessions", func(d damageable) store { return hidesDamage{d} }},
		"its error names no session":   {"sessions", func(d damageable) store { return plainDamage{d} }},
		"a damaged head renews none":   {"renew-damaged", func(d damageable) store { return renewsWhole{d} }},
		"stops where a head is gone":   {"sessions-headless", func(d damageable) store { return stopsAtDamage{d} }},
		"stops at a damaged turn":      {"turns", func(d damageable) store { return stopsAtDamage{d} }},
		"hides a damaged turn":         {"turns", func(d damageable) store { return hidesDamage{d} }},
		"begins a session over turns":  {"claim-headless", func(d damageable) store { return beginsAnew{d} }},
		"says it once":                 {"claim-headless", func(d damageable) store { return saysOnce{d} }},
		"an owner settles on":          {"headless-owner", func(d damageable) store { return settlesOn{d} }},
		"Delete wants a head":          {"delete-headless", func(d damageable) store { return wantsHead{d} }},
		"Delete wants a head it reads": {"delete-damaged-head", func(d damageable) store { return wantsHead{d} }},
		"no lease for the deletion":    {"delete-damaged-turn", func(d damageable) store { return noLease{d} }},
		"a damaged head is shown":      {"head-damaged", func(d damageable) store { return showsDamage{d} }},
		"a lost head was never there":  {"head-headless", func(d damageable) store { return findsNoHead{d} }},
		"Head reads the newest turn":   {"head-damaged-turn", func(d damageable) store { return readsTurn{d} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[store]{Violations: checkpointtest.DamageViolations}.
				Convict(t, c.clause, func() store { return c.broken(newDamageable()) })
		})
	}
}

// The broken stores convict only because the store that they spoil is right.
func TestDamageAccepts(t *testing.T) {
	right := func() checkpointtest.DamagingStore { return newDamageable() }
	for name, err := range checkpointtest.DamageViolations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

// renewsWhole renews all leases or none.
type renewsWhole struct{ damageable }

func (s renewsWhole) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	for _, l := range leases {
		if err := s.head(l.Key); err != nil {
			return nil, err
		}
	}
	return s.damageable.Renew(ctx, ttl, leases)
}

type stopsAtDamage struct{ damageable }

func (s stopsAtDamage) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return untilDamage(s.damageable.Sessions(ctx, q))
}

func (s stopsAtDamage) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return untilDamage(s.damageable.Turns(ctx, k, from))
}

func untilDamage[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

type hidesDamage struct{ damageable }

func (s hidesDamage) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return withoutDamage(s.damageable.Sessions(ctx, q))
}

func (s hidesDamage) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return withoutDamage(s.damageable.Turns(ctx, k, from))
}

func withoutDamage[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			if err == nil && !yield(v, nil) {
				return
			}
		}
	}
}

// plainDamage returns ErrDamaged without naming the session.
type plainDamage struct{ damageable }

func (s plainDamage) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for id, err := range s.damageable.Sessions(ctx, q) {
			if err != nil {
				err = checkpoint.ErrDamaged
			}
			if !yield(id, err) {
				return
			}
		}
	}
}

// beginsAnew makes a new session where the head of the old one is missing.
type beginsAnew struct{ damageable }

func (s beginsAnew) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if s.heads[k] != nil {
		_ = s.Delete(ctx, checkpoint.Lease{Key: k})
	}
	return s.damageable.Claim(ctx, k, r)
}

// saysOnce forgets the damage that it has reported.
type saysOnce struct{ damageable }

func (s saysOnce) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.damageable.Claim(ctx, k, r)
	delete(s.heads, k)
	return c, err
}

type settlesOn struct{ damageable }

func (s settlesOn) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return s.Memory.Append(ctx, l, cp, o)
}

// wantsHead compares the lease with a head that it cannot read.
type wantsHead struct{ damageable }

func (s wantsHead) Delete(ctx context.Context, l checkpoint.Lease) error {
	if err := s.head(l.Key); err != nil {
		return err
	}
	return s.damageable.Delete(ctx, l)
}

type noLease struct{ damageable }

func (s noLease) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.damageable.Claim(ctx, k, r)
	if err != nil {
		c = checkpoint.Claimed{}
	}
	return c, err
}

// showsDamage returns a head as it stands, even if no store wrote it.
type showsDamage struct{ damageable }

func (s showsDamage) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	return s.Memory.Head(ctx, k)
}

// findsNoHead takes a session whose head is missing for one that was never claimed.
type findsNoHead struct{ damageable }

func (s findsNoHead) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	if errors.Is(s.heads[k], checkpoint.ErrNoHead) {
		return checkpoint.Head{}, checkpoint.ErrNotFound
	}
	return s.damageable.Head(ctx, k)
}

// readsTurn returns the error of the newest turn.
type readsTurn struct{ damageable }

func (s readsTurn) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := s.damageable.Head(ctx, k)
	if err == nil {
		_, err = checkpoint.Load(ctx, s, k, checkpoint.Newest)
	}
	return h, err
}
