package checkpointtest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// These stores take, name or delete the wrong session.
func TestSuiteConvictsTakeovers(t *testing.T) {
	convict(t, map[string]conviction{
		"From is ignored":         {"claim-steal", claiming(ignoresFrom)},
		"From wants a live lease": {"steal-expired", func() store { return newWantsLive() }},
		"From takes from anybody": {"steal-other", func() store { return takesFromAnybody{newMutant()} }},
		"From is compared by epoch": {"steal-other", claiming(func(m mutant, k checkpoint.Key, r *checkpoint.ClaimRequest) {
			if f := m.fence(k); r.From.Epoch == f.Epoch {
				r.From = f
			}
		})},
		"From takes what is free": {"steal-free", func() store { return takesFree{newMutant()} }},
		"From creates sessions":   {"steal-free", func() store { return createsUnknown{newMutant()} }},
		"a released nonce claims": {"steal-late", claiming(func(m mutant, k checkpoint.Key, r *checkpoint.ClaimRequest) {
			if m.fence(k).Nonce == r.Nonce {
				r.From = lock.Fence{}
			}
		})},
		"Born is ignored":             {"claim-born", claiming(ignoresBorn)},
		"Born moves settled sessions": {"claim-born", func() store { return &bornAlways{mutant: newMutant()} }},
		"Born comes from a copy":      {"claim-born-late", func() store { return bornFromAnybody{newMutant()} }},
		"Born is not checked": {"claim-born-invalid", claiming(func(_ mutant, _ checkpoint.Key, r *checkpoint.ClaimRequest) {
			if r.Born < 0 || r.Born >= r.From.Epoch {
				r.Born = 0
			}
		})},
		"From is not checked":           {"steal-invalid", refusing(checkpoint.ErrInvalid, new(checkpoint.HeldError))},
		"a refusal names nobody":        {"held-names", refusing(lock.ErrHeld, new(checkpoint.HeldError))},
		"a refusal is a bare ErrHeld":   {"held-names", refusing(lock.ErrHeld, lock.ErrHeld)},
		"a refusal names the first":     {"held-names", func() store { return &namesFirst{mutant: newMutant()} }},
		"an expired owner is named":     {"held-names", func() store { return namesExpired{newMutant()} }},
		"From is looked up, then taken": {"steal-race", func() store { return looksFrom{newMutant()} }},
		"From misses a release":         {"steal-release-race", func() store { return looksFrom{newMutant()} }},
		"a robbed thief is refused":     {"steal-granted", func() store { return robbed{newMutant()} }},
		"Delete without a fence":        {"delete-fenced", func() store { return deletesAny{newMutant()} }},
		"Delete after a release":        {"delete-released", func() store { return deletesReleased{newMutant()} }},
		"Delete wants it live":          {"delete-expired", func() store { return newWantsLive() }},
		"Delete of nothing is fenced":   {"delete-repeated", func() store { return deletesOnce{newMutant()} }},
		"a late Delete is done":         {"delete-late", func() store { return deletesAny{newMutant()} }},
		"Delete looks, then deletes":    {"delete-late-race", func() store { return looksBeforeDelete{newMutant()} }},
		"Delete and a thief succeed":    {"delete-steal-race", func() store { return looksBeforeDelete{newMutant()} }},
		"counters outlive Delete":       {"delete-reborn", func() store { return &countsForEver{mutant: newMutant()} }},
		"Delete by session alone":       {"delete-others", func() store { return deletesEverywhere{newMutant()} }},
	})
}

func ignoresFrom(_ mutant, _ checkpoint.Key, r *checkpoint.ClaimRequest) { r.From = lock.Fence{} }
func ignoresBorn(_ mutant, _ checkpoint.Key, r *checkpoint.ClaimRequest) { r.Born = 0 }

// bornAlways returns the Born of the last request, even if the session has a settled turn.
type bornAlways struct {
	mutant
	born atomic.Int64
}

func (b *bornAlways) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := b.mutant.Claim(ctx, k, r)
	if err == nil && r.Born > 0 {
		b.born.Store(r.Born)
	}
	if born := b.born.Load(); err == nil && born > 0 {
		c.Born = born
	}
	return c, err
}

type bornFromAnybody struct{ mutant }

func (b bornFromAnybody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if r.Born > 0 {
		r.Born = 0
		return b.take(ctx, k, r)
	}
	return b.mutant.Claim(ctx, k, r)
}

// wantsLive refuses From and Delete if the lease that they name has expired.
type wantsLive struct{ punctual }

func newWantsLive() *wantsLive { return &wantsLive{punctual{mutant: newMutant()}} }

func (w *wantsLive) over(f lock.Fence) bool {
	until, ok := w.until.Load(f)
	return ok && time.Now().After(until.(time.Time))
}

func (w *wantsLive) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if w.over(r.From) {
		return checkpoint.Claimed{}, new(checkpoint.HeldError)
	}
	return w.punctual.Claim(ctx, k, r)
}

func (w *wantsLive) Delete(ctx context.Context, l checkpoint.Lease) error {
	if w.over(l.Fence) {
		return lock.ErrFenced
	}
	return w.mutant.Delete(ctx, l)
}

type takesFromAnybody struct{ mutant }

func (a takesFromAnybody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if r.From != (lock.Fence{}) {
		return a.take(ctx, k, r)
	}
	return a.mutant.Claim(ctx, k, r)
}

// takesFree claims a free session although it was asked to take one from its owner.
type takesFree struct{ mutant }

func (f takesFree) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := f.mutant.Claim(ctx, k, r)
	if held, is := errors.AsType[*checkpoint.HeldError](err); is && *held == (checkpoint.HeldError{}) {
		r.From = lock.Fence{}
		return f.mutant.Claim(ctx, k, r)
	}
	return c, err
}

// createsUnknown inserts the row of a session before it looks at From.
type createsUnknown struct{ mutant }

func (u createsUnknown) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := u.mutant.Claim(ctx, k, r)
	if held, is := errors.AsType[*checkpoint.HeldError](err); is && *held == (checkpoint.HeldError{}) {
		r.From = lock.Fence{}
		if c, err := u.mutant.Claim(ctx, k, r); err == nil {
			return checkpoint.Claimed{}, errors.Join(held, u.Mark(ctx, c.Lease, checkpoint.Marks{Release: true}))
		}
	}
	return c, err
}

// namesFirst writes the owner down when a session is created.
type namesFirst struct {
	mutant
	owners sync.Map // checkpoint.Key to string
}

func (n *namesFirst) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := n.mutant.Claim(ctx, k, r)
	owner, _ := n.owners.LoadOrStore(k, r.Owner)
	if held, is := errors.AsType[*checkpoint.HeldError](err); is && *held != (checkpoint.HeldError{}) {
		held.Owner = owner.(string)
	}
	return c, err
}

// namesExpired names an owner whose lease is over.
type namesExpired struct{ mutant }

func (n namesExpired) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := n.mutant.Claim(ctx, k, r)
	last := checkpoint.Lease{Key: k, Fence: n.fence(k)}
	if held, is := errors.AsType[*checkpoint.HeldError](err); is && n.owned(ctx, last) {
		held.Owner, held.Fence = "suite", last.Fence
	}
	return c, err
}

// looksFrom reads who the owner is, and then takes the session.
type looksFrom struct{ mutant }

func (l looksFrom) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if r.From == (lock.Fence{}) || !l.owned(ctx, checkpoint.Lease{Key: k, Fence: r.From}) {
		return l.mutant.Claim(ctx, k, r)
	}
	pause()
	return l.take(ctx, k, r)
}

// robbed checks whether it still owns the session before it reports a grant.
type robbed struct{ mutant }

func (r robbed) Claim(ctx context.Context, k checkpoint.Key, q checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := r.mutant.Claim(ctx, k, q)
	if err != nil {
		return c, err
	}
	pause()
	if !r.owned(ctx, c.Lease) {
		return checkpoint.Claimed{}, new(checkpoint.HeldError)
	}
	return c, nil
}

type deletesAny struct{ mutant }

func (d deletesAny) Delete(ctx context.Context, l checkpoint.Lease) error {
	c, err := d.take(ctx, l.Key, checkpoint.ClaimRequest{Nonce: "delete", TTL: time.Hour})
	if err != nil {
		return err
	}
	return d.Memory.Delete(ctx, c.Lease)
}

// deletesReleased remembers the last lease of a session, even if the lease was given back.
type deletesReleased struct{ mutant }

func (d deletesReleased) Delete(ctx context.Context, l checkpoint.Lease) error {
	if l.Fence == d.fence(l.Key) && !d.owned(ctx, l) {
		return deletesAny(d).Delete(ctx, l)
	}
	return d.Memory.Delete(ctx, l)
}

type deletesOnce struct{ mutant }

func (d deletesOnce) Delete(ctx context.Context, l checkpoint.Lease) error {
	if !d.owned(ctx, l) {
		return lock.ErrFenced
	}
	return d.Memory.Delete(ctx, l)
}

// looksBeforeDelete checks whether the lease is the latest, and then deletes.
type looksBeforeDelete struct{ mutant }

func (d looksBeforeDelete) Delete(ctx context.Context, l checkpoint.Lease) error {
	if !d.owned(ctx, l) {
		return d.Memory.Delete(ctx, l)
	}
	pause()
	return deletesAny(d).Delete(ctx, l)
}

// deletesEverywhere ignores the orchestrator of a session.
type deletesEverywhere struct{ mutant }

func (d deletesEverywhere) Delete(ctx context.Context, l checkpoint.Lease) error {
	d.mu.Lock()
	var found []checkpoint.Lease
	for k, f := range d.current {
		if k.Session == l.Session {
			found = append(found, checkpoint.Lease{Key: k, Fence: f})
		}
	}
	d.mu.Unlock()
	for _, other := range found {
		if err := deletesAny(d).Delete(ctx, other); err != nil {
			return err
		}
	}
	return d.Memory.Delete(ctx, l)
}
