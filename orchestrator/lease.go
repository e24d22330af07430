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
	work  *work // knows the sessions

	mu   sync.Mutex  // protects following field; before that of work
	tick *time.Timer // nil while nothing is held
}

// A lease is how long that of a session is trusted, on this process's clock. The time counts from when the request was sent.
// The mutex of leases protects it.
type lease struct {
	deadline time.Time   // zero: lost, or given back
	end      *time.Timer // at the deadline; nil until the first renewal
	leaving  bool        // a claim that is under way replaces it
}

// trusted is how long a lease counts as ours: the rest is for clocks of different speed and for what is under way.
func (ls *leases) trusted() time.Duration { return ls.ttl - ls.ttl/8 }

// keep makes c the claim of s, and renews its lease until it is dropped or lost, in which case s is told.
func (ls *leases) keep(s *session, c checkpoint.Claimed, sent time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if s.lease.end != nil {
		s.lease.end.Stop()
	}
	s.Claimed = c
	s.lease = lease{deadline: sent.Add(ls.trusted())}
	if ls.tick == nil {
		ls.tick = time.AfterFunc(ls.ttl/3, ls.renewAll)
	}
}

// leave stops renewing the lease of s, which a claim is about to replace: whether the store has it still says nothing.
func (ls *leases) leave(s *session) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s.lease.leaving = true
}

func (ls *leases) drop(s *session) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if s.lease.end != nil {
		s.lease.end.Stop()
	}
	s.lease = lease{}
}

// check returns lock.ErrExpired once the deadline of s has passed, also if no timer has had a chance to say so: the process
// may have been stopped.
func (ls *leases) check(s *session) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if time.Until(s.lease.deadline) <= 0 {
		return lock.ErrExpired
	}
	return nil
}

// A renewal is the lease of a session as it is renewed. The session may have another one by the time of the answer.
type renewal struct {
	*session
	asked checkpoint.Lease
}

// watch sets the timers of leases that have lived until a renewal; most do not.
func (ls *leases) watch() (held []renewal) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, s := range ls.work.sessions() {
		if s.lease.deadline.IsZero() || s.lease.leaving {
			continue
		}
		if s.lease.end == nil {
			s.lease.end = time.AfterFunc(time.Until(s.lease.deadline), func() { s.take(lock.ErrExpired) })
		}
		held = append(held, renewal{s, s.Lease})
	}
	if len(held) == 0 {
		ls.tick = nil
	}
	return held
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
func (ls *leases) extend(some []renewal) error {
	ctx, cancel := context.WithTimeout(context.Background(), ls.ttl/6) // it is for all of them, and no caller's
	defer cancel()
	asked := make([]checkpoint.Lease, len(some))
	for i, s := range some {
		asked[i] = s.asked
	}
	sent := time.Now()
	lost, err := ls.renew(ctx, ls.ttl, asked)
	ls.answered(some, sent, lost, err)
	return err
}

// extendEach renews each by itself: one locked row must not cost the others.
func (ls *leases) extendEach(all []renewal) {
	const atOnce = 8
	ctx, cancel := context.WithTimeout(context.Background(), ls.ttl/6)
	defer cancel()
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, s := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			sent := time.Now()
			lost, err := ls.renew(ctx, ls.ttl, []checkpoint.Lease{s.asked})
			ls.answered([]renewal{s}, sent, lost, err)
		})
	}
	wg.Wait()
}

// answered tells those that are lost, and moves the deadlines of the others.
func (ls *leases) answered(asked []renewal, sent time.Time, lost []checkpoint.Lease, err error) {
	gone := make(map[checkpoint.Lease]bool, len(lost))
	for _, l := range lost {
		gone[l] = true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, r := range asked {
		h := &r.lease
		switch {
		case h.deadline.IsZero() || h.leaving || r.asked != r.Lease: // given back, or claimed anew, meanwhile
		case gone[r.asked]:
			h.deadline = time.Time{}
			r.take(lock.ErrLost)
		case err == nil && h.end != nil && h.end.Stop():
			h.deadline = sent.Add(ls.trusted())
			h.end.Reset(time.Until(h.deadline))
		}
	}
}
