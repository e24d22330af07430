package orchestrator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// leases are those that this orchestrator holds. They are renewed together, from one goroutine that runs only when it is
// time to.
type leases struct {
	ttl   time.Duration
	renew func(context.Context, time.Duration, []checkpoint.Lease) ([]checkpoint.Lease, error)
	log   *slog.Logger

	mu   sync.Mutex // protects following fields
	held map[checkpoint.Lease]*lease
	tick *time.Timer // nil while nothing is held
}

// A lease is trusted until its deadline, which counts from when the request for it was sent, on this process's clock.
type lease struct {
	deadline time.Time
	lose     func(cause error)
	end      *time.Timer // at the deadline; nil until the first renewal
}

func (ls *leases) start(
	ttl time.Duration, renew func(context.Context, time.Duration, []checkpoint.Lease) ([]checkpoint.Lease, error), log *slog.Logger,
) {
	ls.ttl, ls.renew, ls.log = ttl, renew, log
	ls.held = make(map[checkpoint.Lease]*lease)
}

// trusted is how long a lease counts as ours: the rest is for clocks of different speed and for what is under way.
func (ls *leases) trusted() time.Duration { return ls.ttl - ls.ttl/8 }

// keep renews l until it is dropped or lost, in which case lose is called with the cause.
func (ls *leases) keep(l checkpoint.Lease, sent time.Time, lose func(cause error)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.held[l] = &lease{deadline: sent.Add(ls.trusted()), lose: lose}
	if ls.tick == nil {
		ls.tick = time.AfterFunc(ls.ttl/3, ls.renewAll)
	}
}

func (ls *leases) drop(l checkpoint.Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if h := ls.held[l]; h != nil && h.end != nil {
		h.end.Stop()
	}
	delete(ls.held, l)
}

// check returns lock.ErrExpired once the deadline of l has passed, also if no timer has had a chance to say so: the process
// may have been stopped.
func (ls *leases) check(l checkpoint.Lease) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if h := ls.held[l]; h == nil || time.Until(h.deadline) <= 0 {
		return lock.ErrExpired
	}
	return nil
}

// watch sets the timers of leases that have lived until a renewal; most do not.
func (ls *leases) watch() []checkpoint.Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	all := make([]checkpoint.Lease, 0, len(ls.held))
	for l, h := range ls.held {
		all = append(all, l)
		if h.end == nil {
			h.end = time.AfterFunc(time.Until(h.deadline), func() { h.lose(lock.ErrExpired) })
		}
	}
	if len(all) == 0 {
		ls.tick = nil
	}
	return all
}

func (ls *leases) renewAll() {
	all := ls.watch()
	if len(all) == 0 {
		return
	}
	pause := ls.ttl / 3
	if err := ls.extend(all); err != nil {
		ls.log.Warn("leases not renewed", "leases", len(all), "err", err)
		ls.extendEach(all)
		pause = ls.ttl / 12 // there is time for a few more tries before the first is lost
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.tick.Reset(pause)
}

// extend renews them in one statement.
func (ls *leases) extend(some []checkpoint.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), ls.ttl/6) // it is for all of them, and no caller's
	defer cancel()
	sent := time.Now()
	lost, err := ls.renew(ctx, ls.ttl, some)
	ls.lose(lost)
	if err == nil {
		ls.extended(some, sent)
	}
	return err
}

// extendEach renews each by itself: one locked row must not cost the others.
func (ls *leases) extendEach(all []checkpoint.Lease) {
	const atOnce = 8
	ctx, cancel := context.WithTimeout(context.Background(), ls.ttl/6)
	defer cancel()
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, l := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			sent := time.Now()
			lost, err := ls.renew(ctx, ls.ttl, []checkpoint.Lease{l})
			ls.lose(lost)
			if err == nil && len(lost) == 0 {
				ls.extended([]checkpoint.Lease{l}, sent)
			}
		})
	}
	wg.Wait()
}

func (ls *leases) lose(lost []checkpoint.Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range lost {
		if h := ls.held[l]; h != nil {
			h.deadline = time.Time{}
			h.lose(lock.ErrLost)
		}
	}
}

// extended moves the deadlines of those that were not lost.
func (ls *leases) extended(some []checkpoint.Lease, sent time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range some {
		if h := ls.held[l]; h != nil && !h.deadline.IsZero() && h.end != nil && h.end.Stop() {
			h.deadline = sent.Add(ls.trusted())
			h.end.Reset(time.Until(h.deadline))
		}
	}
}
