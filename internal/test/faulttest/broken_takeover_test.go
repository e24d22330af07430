package faulttest

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// fromAnybody ignores the value of From: it takes the session from any owner.
type fromAnybody struct{ *loan }

func (s fromAnybody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if r.From != (lock.Fence{}) {
		r.From = s.owner(k).Fence
	}
	return s.loan.Claim(ctx, k, r)
}

// looksFrom reads the owner in one step and takes the session in another.
type looksFrom struct{ *loan }

func (s looksFrom) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if r.From != (lock.Fence{}) && r.From == s.owner(k).Fence {
		others()
		r.From = s.owner(k).Fence
	}
	return s.loan.Claim(ctx, k, r)
}

// namesAsked tells a late claim the fence that the claim itself asked for.
type namesAsked struct{ *loan }

func (s namesAsked) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.loan.Claim(ctx, k, r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok && held.Owner != "" && r.From != (lock.Fence{}) {
		held.Fence = r.From
	}
	return c, err
}

// namesNobody refuses a claim without naming the owner.
type namesNobody struct{ checkpoint.Store }

func (s namesNobody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if errors.Is(err, lock.ErrHeld) {
		err = new(checkpoint.HeldError)
	}
	return c, err
}

// deletesAny deletes under any lease.
type deletesAny struct{ *loan }

func (s deletesAny) Delete(ctx context.Context, l checkpoint.Lease) error {
	if owner := s.owner(l.Key); owner != (checkpoint.Lease{}) {
		l = owner
	}
	return s.Store.Delete(ctx, l)
}

// looksToDelete checks in one step whether the lease is the latest, and deletes in another.
type looksToDelete struct{ *loan }

func (s looksToDelete) Delete(ctx context.Context, l checkpoint.Lease) error {
	if s.owner(l.Key) == l {
		others()
		l = s.owner(l.Key)
	}
	return s.Store.Delete(ctx, l)
}

// neverDue lists no session as due.
type neverDue struct{ checkpoint.Store }

func (s neverDue) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if q.Due {
		return func(func(string, error) bool) {}
	}
	return s.Store.Sessions(ctx, q)
}

// alwaysDue lists every owed reply as due.
type alwaysDue struct{ checkpoint.Store }

func (s alwaysDue) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	q.Due = q.Due && !q.Owing
	return s.Store.Sessions(ctx, q)
}

// countsAlways counts a failed delivery also if no reply is owed.
type countsAlways struct {
	checkpoint.Store
	failed map[checkpoint.Key]int
}

func (s countsAlways) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	err := s.Store.Mark(ctx, l, m)
	if err == nil && m.Retry > 0 {
		s.failed[l.Key]++
	}
	return err
}

func (s countsAlways) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	c.Failed = s.failed[k]
	return c, err
}

// keepsHolding keeps count and time of failed deliveries when a delivery succeeds.
type keepsHolding struct{ checkpoint.Store }

func (s keepsHolding) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Delivered > 0 && m.Retry == 0 {
		m.Retry = long
	}
	return s.Store.Mark(ctx, l, m)
}
