package owner

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/keeper"
)

// renew extends all leases in one call. If that fails it extends each by itself: one locked row must not cost the
// others.
func (p *Process) renew(
	ctx context.Context, ttl time.Duration, all []checkpoint.Lease, report keeper.Report[checkpoint.Lease],
) (known bool) {
	err := p.extend(ctx, ttl, all, report)
	if err == nil {
		return true
	}
	p.options.Logger.WarnContext(ctx, "leases not renewed", "leases", len(all), p.options.Why(err))
	const atOnce = 8
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, l := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_ = p.extend(ctx, ttl, []checkpoint.Lease{l}, report) // what is not known is asked again soon
		})
	}
	wg.Wait()
	return false
}

// extend takes half of the time that a renewal has, which leaves the other half for another try. With an error it may
// know of some that they are lost.
func (p *Process) extend(
	ctx context.Context, ttl time.Duration, some []checkpoint.Lease, report keeper.Report[checkpoint.Lease],
) error {
	ctx, cancel := context.WithTimeout(ctx, ttl/6)
	defer cancel()
	sent := time.Now()
	lost, err := p.options.Store.Renew(ctx, ttl, some)
	if err != nil {
		report(sent, nil, lost)
		return err
	}
	gone := make(map[checkpoint.Lease]bool, len(lost))
	for _, l := range lost {
		gone[l] = true
	}
	renewed := make([]checkpoint.Lease, 0, len(some))
	for _, l := range some {
		if !gone[l] {
			renewed = append(renewed, l)
		}
	}
	report(sent, renewed, lost)
	return nil
}
