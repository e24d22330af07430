package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A session is one that this process owns, for one call.
type session struct {
	*engine
	checkpoint.Claimed
	ctx    context.Context // ends, with a cause, when the call's ends or the session is lost
	cancel context.CancelCauseFunc

	held    *heldSession          // apart: a context that outlives the call keeps it, and not the rest
	loss    atomic.Pointer[error] // why nothing may be written any more; nil: it may
	inQueue bool                  // it is our turn in this process, until we leave
	unlock  func()                // of the Locker; nil: it was not asked
	over    bool                  // released, or given up
	owns    bool                  // the claim was granted; work's mutex protects it
	buries  bool                  // the session is to be deleted, damaged or not
	claimed time.Time             // when it was asked for
	lease   lease

	mu       sync.Mutex         // protects following fields
	outlives context.CancelFunc // of what goes on although ctx has ended; nil: nothing does
	yields   bool               // it ends at Shutdown all the same
}

// lingering is how long it is tried to find out whether a claim without a reply was granted: then nobody else gets the
// session for a TTL.
const lingering = time.Second

// longestPause is that between two claims of a session that another process owns.
const longestPause = 250 * time.Millisecond

// acquire makes this process the owner of a session: the callers of a process queue in memory, those of several at the
// Locker, and the claim decides. With wait it is ErrBusy after Limits.LockWait, else lock.ErrHeld at once.
func (s *session) acquire(ctx context.Context, e *engine, id, requestID string, wait bool) error {
	if err := s.enter(ctx, e, id); err != nil {
		return err
	}
	if err := s.wait(requestID, wait); err != nil {
		s.undo()
		return err
	}
	return nil
}

// enter begins a call, which Shutdown waits for.
func (s *session) enter(ctx context.Context, e *engine, id string) error {
	outer := heldIn(ctx)
	if outer.has(e, id) {
		return ErrReentrant
	}
	s.engine, s.held = e, &heldSession{Context: ctx, engine: e, session: id, outer: outer}
	s.ctx, s.cancel = context.WithCancelCause(s.held)
	if err := e.work.enter(s); err != nil {
		s.cancel(nil)
		return err
	}
	return nil
}

// wait waits for the session, and claims it.
func (s *session) wait(requestID string, wait bool) error {
	r := checkpoint.ClaimRequest{Owner: s.owner, Nonce: rand.Text(), TTL: s.Limits.LeaseTTL, RequestID: requestID}
	var start time.Time
	if s.meters.on() {
		start = time.Now()
	}
	patience := deadline.In(s.ctx, max(s.Limits.LockWait, s.Limits.SettleTimeout), ErrBusy) // a server may hang
	err := s.comeIn(patience, r, !wait)
	late := patience.Err() != nil && s.ctx.Err() == nil
	patience.Cancel()
	if late {
		if err == nil {
			s.release()
		}
		return ErrBusy
	}
	if wait && errors.Is(err, lock.ErrHeld) {
		ctx, cancel := context.WithTimeoutCause(s.ctx, s.Limits.LockWait, ErrBusy)
		defer cancel()
		err = s.queueUp(ctx, r)
	}
	if err == nil {
		s.meters.waited(start)
		if err = s.work.own(s); err != nil {
			s.release()
		}
	}
	for _, reason := range []error{ErrBusy, ErrShuttingDown} {
		if errors.Is(err, reason) {
			return reason
		}
	}
	return err
}

// comeIn claims the session if nobody is before us. Who may wait leaves the Locker to queueUp.
func (s *session) comeIn(ctx context.Context, r checkpoint.ClaimRequest, useLocker bool) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.inQueue = s.queues.TryEnter(s.held.session); !s.inQueue {
		return lock.ErrHeld
	}
	switch {
	case s.Locker == nil:
	case !useLocker:
		return lock.ErrHeld
	default:
		if err := s.get(ctx, s.Locker.TryLock); err != nil {
			return err
		}
	}
	return s.claim(ctx, r)
}

// queueUp waits for what comeIn did not get.
func (s *session) queueUp(ctx context.Context, r checkpoint.ClaimRequest) error {
	if !s.inQueue {
		if err := s.queues.Enter(ctx, s.held.session); err != nil {
			return err
		}
		s.inQueue = true
	}
	if s.Locker != nil {
		if err := s.get(ctx, s.Locker.Lock); err != nil {
			return err
		}
	}
	pauses := keeper.Backoff{Most: longestPause}
	var owner lock.Fence
	for {
		err := s.claim(ctx, r)
		if !errors.Is(err, lock.ErrHeld) {
			return err
		}
		pause := pauses.Next()
		if held, ok := errors.AsType[*checkpoint.HeldError](err); ok && held.Fence != owner {
			if owner != (lock.Fence{}) {
				pause = min(pause, lookOften) // its owners take turns: between two of them there is a gap for us
			}
			owner = held.Fence
		}
		if err := keeper.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// get locks with the Locker, which only spares the store: if it fails, the session is claimed without.
func (s *session) get(ctx context.Context, enter func(context.Context, string) (context.Context, func(), error)) error {
	_, unlock, err := enter(ctx, lock.Key(s.name, s.held.session))
	if err == nil {
		s.unlock = unlock
		return nil
	}
	if ctx.Err() == nil && !errors.Is(err, lock.ErrHeld) {
		s.Logger.WarnContext(ctx, "locker failed; the session is claimed without", "err", err)
		return nil
	}
	return preferEnd(ctx, err)
}

// claim claims once, or twice if the first reply was lost: the nonce tells that it is us again. If ctx has ended meanwhile,
// what was granted is given back.
func (s *session) claim(ctx context.Context, r checkpoint.ClaimRequest) error {
	k := s.key(s.held.session)
	if s.Locker == nil {
		if gap := s.stretches.gap(s.held.session); gap > 0 {
			if err := keeper.Sleep(ctx, gap); err != nil {
				return err
			}
		}
	}
	sent := time.Now()
	c, err := s.store.Claim(ctx, k, r)
	if err != nil && !answered(err) {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingering)
		defer cancel()
		sent = time.Now()
		c, err = s.store.Claim(again, k, r)
	}
	damaged := errors.Is(err, checkpoint.ErrDamaged) && c.Fence != (lock.Fence{})
	if damaged && s.buries {
		err = nil
	}
	if err != nil {
		if damaged {
			s.giveBack(c.Lease)
		}
		return preferEnd(ctx, err)
	}
	s.leases.keep(s, c, sent)
	if damaged {
		s.leases.leave(s) // there may be no head whose lease could be renewed
	}
	s.claimed = sent
	if err := ctxcause.Of(s.ctx); err != nil {
		s.release()
		return err
	}
	return nil
}

// giveBack releases a session that is damaged, so that the next caller hears of the damage and need not wait for the lease to
// expire. The store may not be able to.
func (s *session) giveBack(l checkpoint.Lease) {
	_ = s.once(s.ctx, func(ctx context.Context) error {
		return s.store.Mark(ctx, l, checkpoint.Marks{Release: true})
	})
}

// claimAnew replaces the fence of a session that is ours by a newer one.
func (s *session) claimAnew() error {
	if err := s.lost(); err != nil {
		return err
	}
	r := checkpoint.ClaimRequest{Owner: s.owner, Nonce: rand.Text(), TTL: s.Limits.LeaseTTL, From: s.Fence}
	var sent time.Time
	var c checkpoint.Claimed
	s.leases.leave(s)
	_, err := s.persist(s.ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		c, err = s.store.Claim(ctx, s.Key, r)
		return err
	})
	if err != nil {
		s.lose(lock.ErrFenced) // another took it, or the grant is unknown
		if errors.Is(err, lock.ErrHeld) {
			return lock.ErrFenced
		}
		return err
	}
	s.leases.keep(s, c, sent)
	return nil
}

// takeFrom claims the session, from its owner if it has one. wanted is asked before an owner is fenced off: false ends it.
func (s *session) takeFrom(wanted func() (bool, error)) (taken bool, err error) {
	r := checkpoint.ClaimRequest{Owner: s.owner, Nonce: rand.Text(), TTL: s.Limits.LeaseTTL}
	ctx := deadline.In(s.ctx, s.Limits.SettleTimeout, ErrBusy)
	defer ctx.Cancel()
	for {
		err := s.claim(ctx, r)
		held, ok := errors.AsType[*checkpoint.HeldError](err)
		if !ok {
			return err == nil, err
		}
		if still, err := wanted(); err != nil || !still {
			return false, err
		}
		if r.From = held.Fence; r.From == (lock.Fence{}) { // it was given back, or taken by another: look again
			if err := keeper.Sleep(ctx, time.Millisecond); err != nil {
				return false, err
			}
		}
	}
}

// preferEnd prefers the end of ctx to an error that only follows from it.
func preferEnd(ctx context.Context, err error) error {
	if cause := ctxcause.Of(ctx); cause != nil && !answered(err) {
		return cause
	}
	return err
}

// lost returns why nothing may be written any more: the session was taken, or its local deadline has passed.
func (s *session) lost() error {
	if s.loss.Load() == nil {
		if err := s.leases.check(s); err != nil {
			s.take(err)
		}
	}
	if loss := s.loss.Load(); loss != nil {
		return *loss
	}
	return nil
}

// take says that the session is not ours any more, whatever ended the context before.
func (s *session) take(cause error) {
	s.loss.CompareAndSwap(nil, &cause)
	s.cancel(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlives != nil {
		s.outlives()
	}
}

// handOff ends the turn, save what has to be finished.
func (s *session) handOff() {
	s.cancel(lock.ErrHandoff)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlives != nil && s.yields {
		s.outlives()
	}
}

// outliving returns a context for what follows a settled turn: it ends with the session, and not with the caller's.
func (s *session) outliving(timeout time.Duration, yields bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), timeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outlives, s.yields = cancel, yields
	if s.loss.Load() != nil || yields && errors.Is(context.Cause(s.ctx), lock.ErrHandoff) {
		cancel()
	}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outlives = nil
		cancel()
	}
}

// lose says that a store has seen a newer owner, or that a function of the bot could not be stopped: from now on nothing is
// written, and the lease is left to expire.
func (s *session) lose(cause error) {
	s.take(cause)
	s.over = true
}

// release gives the session back. It does nothing the second time, or if the session is lost.
func (s *session) release() {
	s.leases.drop(s)
	s.stretches.used(s.held.session, s.claimed)
	if loss := s.loss.Load(); s.over || loss != nil && !errors.Is(*loss, ErrAbandoned) {
		return // whoever abandons without a snapshot store does not take the lease
	}
	s.over = true
	err := s.once(s.ctx, func(ctx context.Context) error {
		return s.store.Mark(ctx, s.Lease, checkpoint.Marks{Release: true})
	})
	if err != nil {
		s.Logger.WarnContext(s.ctx, "lease not released; it expires", "session", s.Session, "err", err)
	}
}

// released notes that a call to the store has given the session back on the way.
func (s *session) released() {
	s.leases.drop(s)
	s.stretches.used(s.held.session, s.claimed)
	s.over = true
}

// done ends the call: what it owns is given back, and the next in line let in.
func (s *session) done() {
	s.release()
	s.undo()
}

func (s *session) undo() {
	s.cancel(nil)
	s.held.over.Store(true)
	if s.unlock != nil {
		s.unlock()
	}
	if s.inQueue {
		s.queues.Leave(s.held.session)
	}
	s.work.exit(s)
}

func (s *session) runKey() snapshot.Key { return snapshot.Key(s.Key) }
