package faulttest

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// fromAnybody takes From for leave to take the session from whoever owns it.
type fromAnybody struct{ *loan }

func (s fromAnybody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if r.From != (lock.Fence{}) {
		r.From = s.owner(k).Fence
	}
	return s.loan.Claim(ctx, k, r)
}

// looksFrom looks who the owner is in one step and takes the session in another.
type looksFrom struct{ *loan }

func (s looksFrom) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if r.From != (lock.Fence{}) && r.From == s.owner(k).Fence {
		others()
		r.From = s.owner(k).Fence
	}
	return s.loan.Claim(ctx, k, r)
}

// namesAsked tells a claim that came too late the fence that it came with.
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

// namesNobody does not look who refuses a claim.
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

// looksToDelete looks whether the lease is the latest in one step and deletes in another.
type looksToDelete struct{ *loan }

func (s looksToDelete) Delete(ctx context.Context, l checkpoint.Lease) error {
	if s.owner(l.Key) == l {
		others()
		l = s.owner(l.Key)
	}
	return s.Store.Delete(ctx, l)
}

// neverDue lists nothing as due.
type neverDue struct{ checkpoint.Store }

func (s neverDue) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if q.Due {
		return func(func(string, error) bool) {}
	}
	return s.Store.Sessions(ctx, q)
}

// alwaysDue lists all that is owed as due.
type alwaysDue struct{ checkpoint.Store }

func (s alwaysDue) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	q.Due = q.Due && !q.Owing
	return s.Store.Sessions(ctx, q)
}

// countsAlways counts a delivery that failed also where nothing is owed.
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

// keepsHolding forgets neither count nor time when something is delivered.
type keepsHolding struct{ checkpoint.Store }

func (s keepsHolding) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Delivered > 0 && m.Retry == 0 {
		m.Retry = long
	}
	return s.Store.Mark(ctx, l, m)
}
