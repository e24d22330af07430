package owner

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// renew extends all leases in one call. If that fails it extends each by itself: one locked row must not cost the others.
func (p *Process) renew(ctx context.Context, ttl time.Duration, all []checkpoint.Lease) (renewed, lost []checkpoint.Lease) {
	renewed, lost, err := p.extend(ctx, ttl, all)
	if err == nil {
		return renewed, lost
	}
	p.Logger.WarnContext(ctx, "leases not renewed", "leases", len(all), p.Why(err))
	renewed, lost = nil, nil
	const atOnce = 8
	var wg sync.WaitGroup
	var mu sync.Mutex // protects the results
	slots := make(chan struct{}, atOnce)
	for _, l := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ours, gone, _ := p.extend(ctx, ttl, []checkpoint.Lease{l}) // what is not known is asked again soon
			mu.Lock()
			defer mu.Unlock()
			renewed, lost = append(renewed, ours...), append(lost, gone...)
		})
	}
	wg.Wait()
	return renewed, lost
}

// extend takes half of the time that a renewal has, which leaves the other half for another try.
func (p *Process) extend(ctx context.Context, ttl time.Duration, some []checkpoint.Lease) (renewed, lost []checkpoint.Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, ttl/6)
	defer cancel()
	lost, err = p.Store.Renew(ctx, ttl, some)
	if err != nil {
		return nil, lost, err
	}
	gone := make(map[checkpoint.Lease]bool, len(lost))
	for _, l := range lost {
		gone[l] = true
	}
	for _, l := range some {
		if !gone[l] {
			renewed = append(renewed, l)
		}
	}
	return renewed, lost, nil
}
