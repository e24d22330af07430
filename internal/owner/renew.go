package owner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
)

// renew extends all leases in one call. If the store says which leases it does not know of, the other leases are
// renewed. If it does not say, renew extends each by itself: one locked row must not cost the others. A lease that
// stays unknown is trusted no longer than before, and is asked about again soon.
func (p *Process) renew(
	ctx context.Context, ttl time.Duration, all []Lease, report keeper.Report[Lease],
) (known bool) {
	unknown, err := p.extend(ctx, ttl, ttl/6, all, report)
	p.noteRenewal(ctx, len(all), len(unknown), err)
	if err == nil {
		return true
	}
	if _, named := errors.AsType[*UnknownError](err); named {
		return false
	}
	const atOnce = 8
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	// If many do not answer, the others get their turn all the same.
	each := max(ttl/100, min(ttl/6, ttl/6*atOnce/time.Duration(max(len(unknown), 1))))
	for _, l := range unknown {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, _ = p.extend(ctx, ttl, each, []Lease{l}, report)
		})
	}
	wg.Wait()
	return false
}

// noteRenewal logs when renewals begin to fail, and when they succeed again.
func (p *Process) noteRenewal(ctx context.Context, all, unknown int, err error) {
	switch failed := err != nil; {
	case failed == p.unrenewed.Swap(failed):
	case failed:
		p.options.Logger.WarnContext(ctx, "leases not renewed", "leases", unknown, "of", all, p.options.Why(err))
	default:
		p.options.Logger.InfoContext(ctx, "leases renewed again", "leases", all)
	}
}

// extend asks the store once, for at most patience. It returns the leases of which the store does not know, with the
// error. The first call takes half of the time that a renewal has, which leaves the other half for another try.
func (p *Process) extend(
	ctx context.Context, ttl, patience time.Duration, some []Lease, report keeper.Report[Lease],
) (unknown []Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := time.Now()
	lost, err := p.options.Rows.Renew(ctx, ttl, some)
	partial, named := errors.AsType[*UnknownError](err)
	gone, left := setOf(lost), make(map[Lease]bool)
	if named {
		left = setOf(partial.Leases)
	}
	var renewed []Lease
	for _, l := range some {
		switch {
		case gone[l]:
		case left[l], err != nil && !named:
			unknown = append(unknown, l)
		default:
			renewed = append(renewed, l)
		}
	}
	report(sent, renewed, lost)
	return unknown, err
}

func setOf(leases []Lease) map[Lease]bool {
	set := make(map[Lease]bool, len(leases))
	for _, l := range leases {
		set[l] = true
	}
	return set
}
