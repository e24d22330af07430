package bootdrain

import (
	"context"
	"math/rand/v2"
	"time"
)

// The paces of Watch that no option changes.
const (
	dueEvery   = time.Second
	sweepEvery = time.Minute
	sweepLimit = 1000
)

// Watch passes until ctx is done, and returns its cause. A pass that cannot be made is logged and tried again, less and less
// often, up to Options.Every.
func Watch(ctx context.Context, b Bot, o *Options) error {
	d := newDrain(b, o)
	now := time.Now()
	allAt, dueAt, sweepAt := now.Add(d.around(d.Every)/2), now.Add(dueEvery), now.Add(d.around(sweepEvery))
	failures := 0
	for {
		next := allAt
		if d.Sessions == nil && dueAt.Before(next) {
			next = dueAt
		}
		if d.Sweep != nil && sweepAt.Before(next) {
			next = sweepAt
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
		switch next {
		case sweepAt:
			d.sweep(ctx)
			sweepAt = time.Now().Add(d.around(sweepEvery))
			continue
		case allAt:
			failures = d.count(ctx, failures, true)
			allAt = time.Now().Add(d.around(d.Every))
		default:
			failures = d.count(ctx, failures, false)
		}
		dueAt = time.Now().Add(d.pause(failures))
	}
}

// count makes a pass and returns how many have failed in a row.
func (d *drain) count(ctx context.Context, failures int, all bool) int {
	_, err := d.pass(ctx, all)
	if err == nil || ctx.Err() != nil {
		return 0
	}
	d.Logger.ErrorContext(ctx, "pass not made", "err", err)
	return failures + 1
}

// pause is how long to wait before runs that are due are looked for again.
func (d *drain) pause(failures int) time.Duration {
	pause := dueEvery
	for range min(failures, 10) {
		pause *= 2
	}
	return min(pause, max(d.Every, dueEvery))
}

func (d *drain) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := d.Sweep(ctx, sweepLimit)
		if err != nil {
			d.Logger.ErrorContext(ctx, "sweep failed", "err", err)
		}
		if err != nil || n < sweepLimit {
			return
		}
	}
}

// around returns d ± 50 %, so that processes which started together do not stay together.
func (*drain) around(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
