package owner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/lock"
)

// A Session is a session that this process owns, for one call. The zero value is ready for Acquire and Enter.
type Session struct {
	// From is the process that the session was taken from because its beats stood still for Stood. It is "" if the
	// session was free.
	From  string
	Stood time.Duration

	// Ctx ends, with a cause, when the call's context ends or the session is lost.
	Ctx context.Context

	// Buries says that Enter's caller deletes the session, damaged or not.
	Buries bool

	// Begun says that something may be left of what was begun in the session. If Begun is false, and the session's life
	// began with this claim, the session is removed when it is given back: names that strangers make up must not fill
	// the store.
	Begun bool

	process *Process
	cancel  context.CancelCauseFunc
	scope   *Scope
	row     Row
	fence   lock.Fence // of the last claim

	// loss says why nothing may be written any more. It is nil if the session may be written.
	loss atomic.Pointer[error]

	// inQueue says that it is our turn in this process, until we leave.
	inQueue bool

	// unlock is the Locker's; nil if the Locker was not asked.
	unlock func()
	over   bool // released, or given up

	// owns says that the claim was granted. The process's mutex protects it.
	owns bool

	// inFlight says that a turn is in flight, and has not begun to settle. The process's mutex protects it.
	inFlight bool

	// first says that the claim began the session's life, and that nothing was appended since.
	first   bool
	claimed time.Time // when the claim was sent
	granted time.Time // when the answer came

	// silence is the error of the last claim, if the store did not answer it.
	silence error
	lease   keeper.Kept[Lease]

	mu sync.Mutex // protects following fields

	// outlives ends the work that goes on although Ctx has ended; nil if there is none.
	outlives context.CancelFunc

	// yields says that this work ends at HandOff all the same.
	yields bool
}

// lingering bounds how long a claim that was sent outlasts its caller, and then the second attempt after a lost reply.
// An unknown grant blocks the session for one lease.
const lingering = time.Second

// longestPause is the longest pause between two claims of a session that another process owns.
const longestPause = 250 * time.Millisecond

// longestAway is the longest pause between two claims that no store takes. All sessions in use wait for it.
const longestAway = time.Second

// errTooLate is the error of a claim whose answer came when the lease could no longer be trusted.
var errTooLate = fmt.Errorf("%w: the answer to the claim came too late: %w", ErrUnavailable, lock.ErrExpired)

// Acquire makes this process the owner of a session. The callers of one process queue in memory, the callers of several
// processes queue at the Locker, and the claim decides. With wait, Acquire returns ErrBusy after LockWait. Without
// wait, it returns lock.ErrHeld at once. With wait, it waits as long for a store that takes no claim. If the store took
// the last claim neither then, the error is ErrUnavailable.
func (s *Session) Acquire(ctx context.Context, p *Process, id string, row Row, wait bool) error {
	if err := s.Enter(ctx, p, id, row); err != nil {
		return err
	}
	if err := s.wait(wait); err != nil {
		s.Undo()
		return err
	}
	return nil
}

// Enter begins a call. The call owns nothing yet: see Acquire and Take.
func (s *Session) Enter(ctx context.Context, p *Process, id string, row Row) error {
	outer := ScopeIn(ctx)
	if outer.has(p.options.Orchestrator, id) {
		return ErrReentrant
	}
	s.process, s.row, s.scope = p, row, &Scope{Context: ctx, process: p, session: id, outer: outer}
	s.Ctx, s.cancel = context.WithCancelCause(s.scope)
	if err := p.enter(s); err != nil {
		s.cancel(nil)
		return err
	}
	return nil
}

// ID returns the id of the session.
func (s *Session) ID() string { return s.scope.session }

// wait waits for the session, and claims it.
func (s *Session) wait(wait bool) error {
	r := s.process.request()
	start := time.Now()
	o := &s.process.options
	patience := deadline.In(s.Ctx, max(o.LockWait, o.SettleTimeout), ErrBusy) // a server may hang
	err := s.comeIn(patience, r, !wait)
	late := patience.Err() != nil && s.Ctx.Err() == nil
	patience.Cancel()
	if late {
		if err == nil {
			s.release()
		}
		return s.inVain(ErrBusy)
	}
	if wait && (errors.Is(err, lock.ErrHeld) || away(err)) {
		ctx, cancel := context.WithTimeoutCause(s.Ctx, s.process.options.LockWait, ErrBusy)
		defer cancel()
		err = s.queueUp(ctx, r)
	}
	if err == nil {
		s.process.options.Waited(start)
		if err = s.process.own(s); err != nil {
			s.release()
		}
	}
	return s.inVain(err)
}

// inVain returns the error of a call that does not become the owner. Waiting for a session and waiting for the store
// end alike. What the store said last tells them apart.
func (s *Session) inVain(err error) error {
	switch {
	case errors.Is(err, ErrShuttingDown):
		return ErrShuttingDown
	case s.silence == nil && errors.Is(err, ErrBusy):
		return ErrBusy
	case err == nil || s.silence == nil:
		return err
	case s.Ctx.Err() == nil && errors.Is(s.silence, context.DeadlineExceeded) && !Refused(s.silence):
		return fmt.Errorf("%w: no answer", ErrUnavailable) // the deadline is ours, and not the caller's
	case s.Ctx.Err() == nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, s.silence)
	case Refused(s.silence): // the caller has not waited long enough
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, err, s.silence)
	}
	return err
}

// comeIn claims the session if no other call is before us. Callers that may wait skip the Locker here; queueUp asks it.
func (s *Session) comeIn(ctx context.Context, r Request, useLocker bool) error {
	if s.Ctx.Err() != nil {
		return ctxcause.Cause(s.Ctx)
	}
	if s.inQueue = s.process.queues.TryEnter(s.scope.session); !s.inQueue {
		return lock.ErrHeld
	}
	switch {
	case s.process.options.Locker == nil:
	case !useLocker:
		return lock.ErrHeld
	default:
		err := s.get(ctx, s.process.options.Locker.TryLock)
		if stopped, _ := s.process.pulse.Stop(); err != nil && (!stopped || !errors.Is(err, lock.ErrHeld)) {
			return err // else the lock may be one that a dead process left
		}
	}
	return s.claimOrTake(ctx, r)
}

// queueUp waits for the session that comeIn did not get.
func (s *Session) queueUp(ctx context.Context, r Request) error {
	if !s.inQueue {
		if err := s.process.queues.Enter(ctx, s.scope.session); err != nil {
			return err
		}
		s.inQueue = true
	}
	for waits := s.process.options.Locker != nil; waits; {
		stopped, more := s.process.pulse.Stop()
		if stopped { // it may be the owner, and its lock may be left
			if err := s.claimOrTake(ctx, r); !errors.Is(err, lock.ErrHeld) && !away(err) {
				return err
			}
		}
		err := s.get(ctx, func(ctx context.Context, key string) (context.Context, func(), error) {
			return lockUnless(ctx, s.process.options.Locker, key, more, stopped)
		})
		if waits = errors.Is(err, errStopped); err != nil && !waits {
			return err
		}
	}
	pauses := keeper.Backoff{Most: longestPause}
	var owner lock.Fence
	for {
		err := s.claimOrTake(ctx, r)
		pauses.Most = longestPause
		switch {
		case away(err):
			pauses.Most = longestAway
		case !errors.Is(err, lock.ErrHeld):
			return err
		}
		pause := pauses.Next()
		if held, ok := errors.AsType[*lock.HeldError](err); ok && held.Fence != owner {
			if owner != (lock.Fence{}) {
				pause = min(pause, lookOften) // its owners take turns, with a gap in between for us
			}
			owner = held.Fence
		}
		if err := keeper.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// get locks with the Locker, which only spares the store. If the Locker fails, the session is claimed without it.
func (s *Session) get(ctx context.Context, enter func(context.Context, string) (context.Context, func(), error)) error {
	_, unlock, err := enter(ctx, lock.Key(s.process.options.Orchestrator, s.scope.session))
	if err == nil {
		s.unlock = unlock
		return nil
	}
	if ctx.Err() == nil && !errors.Is(err, lock.ErrHeld) && !errors.Is(err, errStopped) {
		options := &s.process.options
		options.Logger.WarnContext(ctx, "locker failed; the session is claimed without", options.Why(err))
		return nil
	}
	return preferEnd(ctx, err)
}

// errStopped ends the wait for a lock.
var errStopped = errors.New("a process has stopped")

// lockUnless waits for key until stopped is closed: then the key may be one that a dead process left. If one may have
// been left before, it waits for a moment only: it would not be given back.
func lockUnless(
	ctx context.Context, l lock.Locker, key string, stopped <-chan struct{}, left bool,
) (context.Context, func(), error) {
	waiting, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var again <-chan time.Time
	if left {
		moment := time.NewTimer(longestAway)
		defer moment.Stop()
		again = moment.C
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-stopped:
			cancel(errStopped)
		case <-again:
			cancel(errStopped)
		case <-done:
		}
	})
	held, unlock, err := l.Lock(waiting, key)
	close(done)
	watch.Wait()
	switch {
	case err == nil:
		return held, func() { unlock(); cancel(nil) }, nil
	case ctx.Err() == nil && waiting.Err() != nil:
		err = errStopped
	}
	cancel(nil)
	return nil, nil, err
}

// claimOrTake claims the session. If the session belongs to a process that has stopped, it is taken from that process.
// If that process owns it no longer by then, the store refuses.
func (s *Session) claimOrTake(ctx context.Context, r Request) error {
	err := s.claim(ctx, r)
	held, ok := errors.AsType[*lock.HeldError](err)
	if !ok || held.Fence == (lock.Fence{}) {
		return err
	}
	stood := s.process.pulse.Stopped(held.Owner)
	if stood == 0 {
		return err
	}
	r.From = held.Fence
	if err := s.claim(ctx, r); err != nil {
		return err
	}
	s.From, s.Stood = held.Owner, stood
	return nil
}

// claim claims the session. If the reply is lost, it claims a second time: the nonce tells the store that it is us
// again. If ctx has ended meanwhile, the session is given back.
func (s *Session) claim(ctx context.Context, r Request) error {
	if s.process.options.Locker == nil {
		if gap := s.process.stretches.gap(s.scope.session); gap > 0 {
			if err := keeper.Sleep(ctx, gap); err != nil {
				return err
			}
		}
	}
	if err := ctxcause.Of(ctx); err != nil {
		return err
	}
	sent := time.Now()
	asking := deadline.After(ctx, lingering) // a claim that is given up may be granted later, to nobody
	g, err := s.row.Claim(asking, r)
	asking.Cancel()
	if err != nil && !Answered(err) {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingering)
		defer cancel()
		sent = time.Now()
		g, err = s.row.Claim(again, r)
	}
	s.heard(ctx, err)
	damaged := err != nil && g.Fence != (lock.Fence{})
	if damaged && s.Buries {
		err = nil
	}
	if err != nil {
		if damaged {
			s.giveBack(g.Fence)
		}
		return preferEnd(ctx, err)
	}
	s.claimed, s.first, s.Begun = sent, g.First, false
	if s.process.leases.TooLate(sent) {
		s.fence = g.Fence
		s.release() // the store counts the lease from its answer, and would refuse others until it has expired
		return errTooLate
	}
	s.grant(g, sent)
	if damaged {
		s.process.leases.Settle(&s.lease) // perhaps no head is left whose lease could be renewed
	}
	if err := ctxcause.Of(s.Ctx); err != nil {
		s.release()
		return err
	}
	return nil
}

// request returns the request for a free session.
func (p *Process) request() Request {
	return Request{Owner: p.Name(), Nonce: rand.Text(), TTL: p.options.LeaseTTL}
}

// heard notes whether the store has answered a claim. The first claim of a process that is not taken is logged, and the
// first that is taken again.
func (s *Session) heard(ctx context.Context, err error) {
	s.silence = nil
	if err != nil && !Answered(err) {
		s.silence = err
	}
	p := s.process
	if gone := away(err); gone != p.away.Load() && p.away.CompareAndSwap(!gone, gone) {
		if gone {
			p.options.Logger.WarnContext(ctx, "store takes no claim; callers wait", p.options.Why(err))
		} else {
			p.options.Logger.InfoContext(ctx, "store takes claims again")
		}
	}
}

// grant makes g the claim of the session.
func (s *Session) grant(g Grant, sent time.Time) {
	s.process.leases.Keep(&s.lease, Lease{s.scope.session, g.Fence}, sent, s.take)
	s.fence, s.granted = g.Fence, time.Now()
}

// Clock returns the time in milliseconds by the clock that has issued the fence: the epoch, and what has passed since
// on the monotonic clock. The epoch of a later owner is not below it, unless that clock is turned back. The wall clock
// of this process has no part in it.
func (s *Session) Clock() int64 {
	return time.UnixMicro(s.fence.Epoch).UnixMilli() + time.Since(s.granted).Milliseconds()
}

// AtWork notes the run that is at work, for Interrupt and Scope.Run.
func (s *Session) AtWork(run string) { s.scope.run.Store(&run) }

// TurnInFlight notes that a turn is in flight for a run, which is at work: InterruptTurn may end it.
func (s *Session) TurnInFlight(run string) {
	s.AtWork(run)
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	s.inFlight = true
}

// TurnOver notes that the turn in flight settles or has failed. From then on InterruptTurn does not end it. TurnOver
// returns what Lost returns, so that an interruption that came before is not missed.
func (s *Session) TurnOver() error {
	s.process.mu.Lock()
	s.inFlight = false
	s.process.mu.Unlock()
	return s.Lost()
}

// Persist is Process.Persist.
func (s *Session) Persist(ctx context.Context, call func(context.Context) error) (doubt bool, err error) {
	return s.process.Persist(ctx, call)
}

// Once is Process.Once.
func (s *Session) Once(ctx context.Context, call func(context.Context) error) error {
	return s.process.Once(ctx, call)
}

// giveBack releases a damaged session. So the next caller hears of the damage, and need not wait for the lease to
// expire. If the store cannot release it, the lease expires.
func (s *Session) giveBack(f lock.Fence) {
	_ = s.process.Once(s.Ctx, func(ctx context.Context) error { return s.row.Release(ctx, f) })
}

// ClaimAnew replaces the fence of a session that is ours by a newer fence.
func (s *Session) ClaimAnew() error {
	if err := s.Lost(); err != nil {
		return err
	}
	r := s.process.request()
	r.From = s.fence
	var sent time.Time
	var g Grant
	s.process.leases.Settle(&s.lease)
	_, err := s.process.Persist(s.Ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		g, err = s.row.Claim(ctx, r)
		return err
	})
	if err != nil {
		s.Lose(lock.ErrFenced) // another took it, or the grant is unknown
		if errors.Is(err, lock.ErrHeld) {
			return lock.ErrFenced
		}
		return err
	}
	s.grant(g, sent)
	s.first = false
	return nil
}

// Keep says that the session stays, even if the next call fails.
func (s *Session) Keep() { s.first = false }

// Take claims the session, from its owner if it has one. Before it fences off an owner, it asks wanted. If wanted
// returns false, Take gives up.
func (s *Session) Take(wanted func() (bool, error)) (taken bool, err error) {
	r := s.process.request()
	ctx := deadline.In(s.Ctx, s.process.options.SettleTimeout, ErrBusy)
	defer ctx.Cancel()
	for {
		err := s.claim(ctx, r)
		held, ok := errors.AsType[*lock.HeldError](err)
		if !ok {
			return err == nil, s.inVain(err)
		}
		if still, err := wanted(); err != nil || !still {
			return false, err
		}
		if r.From = held.Fence; r.From == (lock.Fence{}) { // given back, or claimed by another owner: look again
			if err := keeper.Sleep(ctx, time.Millisecond); err != nil {
				return false, err
			}
		}
	}
}

// preferEnd returns the end of ctx in place of an error that only follows from it.
func preferEnd(ctx context.Context, err error) error {
	if cause := ctxcause.Of(ctx); cause != nil && !Answered(err) {
		return cause
	}
	return err
}

// Lost returns why nothing may be written any more: the session was lost, or its local deadline has passed.
func (s *Session) Lost() error {
	if s.loss.Load() == nil {
		if err := s.process.leases.Check(&s.lease); err != nil {
			s.take(err)
		}
	}
	if loss := s.loss.Load(); loss != nil {
		return *loss
	}
	return nil
}

// take notes that the session is no longer ours, even if its context has ended before.
func (s *Session) take(cause error) {
	s.loss.CompareAndSwap(nil, &cause)
	s.cancel(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlives != nil {
		s.outlives()
	}
}

// handOff ends the turn, except for work that has to be finished.
func (s *Session) handOff() {
	s.cancel(lock.ErrHandoff)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outlives != nil && s.yields {
		s.outlives()
	}
}

// Outliving returns a context for the work that follows a settled turn. It ends when the session is lost. It does not
// end with the caller's context. With yields, it also ends at HandOff.
func (s *Session) Outliving(timeout time.Duration, yields bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), timeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outlives, s.yields = cancel, yields
	if s.loss.Load() != nil || yields && errors.Is(ctxcause.Cause(s.Ctx), lock.ErrHandoff) {
		cancel()
	}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outlives = nil
		cancel()
	}
}

// Lose notes that a store has seen a newer owner, or that a function of the bot could not be stopped. From then on
// nothing is written, and the lease is left to expire.
func (s *Session) Lose(cause error) {
	s.take(cause)
	s.over = true
}

// Fenced notes that a store has seen a newer owner. Any goroutine may call it.
func (s *Session) Fenced() { s.take(lock.ErrFenced) }

// release gives the session back, or removes it if nothing is left of it: see Begun. It does nothing the second time,
// or if the session is lost.
func (s *Session) release() {
	s.process.leases.Drop(&s.lease)
	s.process.stretches.used(s.scope.session, s.claimed)
	if loss := s.loss.Load(); s.over || loss != nil && !errors.Is(*loss, ErrAbandoned) {
		return // Abandon without a snapshot store leaves us the lease; every other loss takes it
	}
	s.over = true
	err := s.process.Once(s.Ctx, func(ctx context.Context) error {
		if s.first && !s.Begun {
			return s.row.Remove(ctx, s.fence)
		}
		return s.row.Release(ctx, s.fence)
	})
	if err != nil {
		s.process.options.Logger.WarnContext(s.Ctx, "lease not released; it expires",
			"session", s.scope.session, s.process.options.Why(err))
	}
}

// Released notes that a call to the store has released the session as well.
func (s *Session) Released() {
	s.process.leases.Drop(&s.lease)
	s.process.stretches.used(s.scope.session, s.claimed)
	s.over = true
}

// Done ends the call. It gives back what the call owns, and lets the next caller in.
func (s *Session) Done() {
	s.release()
	s.Undo()
}

// Undo ends a call that owns no session, or no longer does.
func (s *Session) Undo() {
	s.cancel(nil)
	s.scope.over.Store(true)
	if s.unlock != nil {
		s.unlock()
	}
	if s.inQueue {
		s.process.queues.Leave(s.scope.session)
	}
	s.process.exit(s)
}

// Expire makes the lease expire without a timer, as after a pause of the process. It is for tests.
func (s *Session) Expire() { s.process.leases.Drop(&s.lease) }
