package owner

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/lock"
)

// The reasons why a call does not become the owner of its session, or does not stay the owner.
var (
	ErrBusy         = errors.New("session is busy")
	ErrShuttingDown = errors.New("shutting down")
	ErrAbandoned    = errors.New("run abandoned")
	ErrReentrant    = errors.New("session is already in this call")
	ErrUnavailable  = errors.New("store unavailable, and nothing was begun")
)

// Options are the parts of a Process. Only Locker may be nil.
type Options struct {
	// Orchestrator is the name of the orchestrator that the sessions belong to.
	Orchestrator string
	Rows         Rows

	// Pulse is that of this process in the database of the rows. All Processes of the database share it.
	Pulse    *pulse.Pulse
	Locker   lock.Locker
	LeaseTTL time.Duration

	// DeadAfter is for how long the beats of another process stand still before its sessions are claimed from it. If it
	// is not positive, they are claimed when their leases have expired.
	DeadAfter time.Duration

	// LockWait is how long a call waits for a session that another call owns.
	LockWait time.Duration

	// SettleTimeout bounds a call to a store that has to be answered.
	SettleTimeout time.Duration
	Logger        *slog.Logger

	// Why returns the attribute of a log line for an error.
	Why func(error) slog.Attr

	// Waited is told when a call has become an owner.
	Waited func(since time.Time)
}

// A Process owns sessions of one orchestrator.
type Process struct {
	options Options

	// queues hold the calls of this process in line, before any request to a server.
	queues    queue.Keyed
	stretches stretches
	leases    *keeper.Keeper[Lease]
	pulse     *pulse.Member

	// away says that the store took no claim, the last time.
	away atomic.Bool

	// unrenewed says that some leases were not renewed, the last time.
	unrenewed atomic.Bool

	mu      sync.Mutex // protects following fields
	calls   map[*Session]struct{}
	called  bool // since the last beat
	closing bool
	idle    chan struct{} // closed when the last call ends after closing
}

// New returns a Process that owns nothing.
func New(o Options) *Process {
	p := &Process{options: o, calls: make(map[*Session]struct{})}
	p.leases = keeper.New(o.LeaseTTL, p.renew)
	if o.DeadAfter <= 0 {
		o.Pulse = pulse.New(nil) // under another name than what beats
	}
	p.pulse = o.Pulse.Join(pulse.Options{
		Patience: o.DeadAfter, Left: o.LeaseTTL + o.DeadAfter, Calls: p.hasCalls,
		Failed: func(err error) {
			o.Logger.Warn("beat failed: until one succeeds, sessions change hands when their leases expire", o.Why(err))
		},
	})
	return p
}

// Name returns the name under which this process owns sessions, and beats. It is unique for each start.
func (p *Process) Name() string { return p.pulse.Name() }

// Interrupt ends with cause the context of the session's owner in this process, if the owner is at work on the run with
// runID. If runID is "", the run does not matter. found says whether there was such an owner.
func (p *Process) Interrupt(session, runID string, cause error) (found bool) {
	return p.interrupt(session, runID, cause, false)
}

// InterruptTurn is Interrupt for an owner that has a turn in flight. It leaves an owner alone that settles, or does
// other work.
func (p *Process) InterruptTurn(session, runID string, cause error) (found bool) {
	return p.interrupt(session, runID, cause, true)
}

func (p *Process) interrupt(session, runID string, cause error, turnOnly bool) (found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.calls {
		if !s.owns || turnOnly && !s.inFlight {
			continue
		}
		if s.scope.session == session && (runID == "" || s.scope.worksOn(runID)) {
			s.take(cause)
			found = true
		}
	}
	return found
}

// Close refuses new calls, except from within a turn that goes on. It sends the waiting calls away, and returns a
// channel that is closed once all calls have ended.
func (p *Process) Close() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closing {
		p.closing = true
		p.idle = make(chan struct{})
		if len(p.calls) == 0 {
			close(p.idle)
		}
	}
	for s := range p.calls {
		if !s.owns && !s.scope.outer.within(p) {
			s.cancel(ErrShuttingDown)
		}
	}
	return p.idle
}

// HandOff ends the contexts of all owners with lock.ErrHandoff, so that other processes can go on.
func (p *Process) HandOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.calls {
		if s.owns {
			s.handOff()
		}
	}
}

// Sessions returns the sessions of all calls.
func (p *Process) Sessions() []*Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.calls))
}

func (p *Process) enter(s *Session) error {
	if err := p.admit(s); err != nil {
		return err
	}
	p.pulse.Wake()
	return nil
}

func (p *Process) admit(s *Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing && !s.scope.outer.within(p) {
		return ErrShuttingDown
	}
	p.calls[s] = struct{}{}
	p.called = true
	return nil
}

// hasCalls reports whether there are calls, or were any since hasCalls was last called.
func (p *Process) hasCalls() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	called := p.called || len(p.calls) > 0
	p.called = false
	return called
}

// Watch keeps the watch of other processes going for some seconds. It returns how many processes have been found to
// have stopped so far. If the number has grown, Stopped says which.
func (p *Process) Watch() (stops int) { return p.pulse.Watch() }

// Found returns a channel that is closed when another process is found to have stopped.
func (p *Process) Found() <-chan struct{} {
	_, more := p.pulse.Stop()
	return more
}

// Stopped reports whether the process with a name counts as stopped: its sessions are to be had.
func (p *Process) Stopped(name string) bool { return p.pulse.Stopped(name) > 0 }

// Held returns which of the sessions another process is at work on, so that a claim would be in vain.
func (p *Process) Held(ctx context.Context, sessions []string) (owners map[string]string, err error) {
	owners, err = p.options.Rows.Held(ctx, sessions)
	maps.DeleteFunc(owners, func(_, owner string) bool { return p.Stopped(owner) })
	return owners, err
}

// Rest is for the end of the Process. When the last Process of the database has ended, no other process watches for the
// beats of this one.
func (p *Process) Rest() { p.pulse.End() }

// own notes that s is the owner of its session, unless the process is closing.
func (p *Process) own(s *Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing && !s.scope.outer.within(p) {
		return ErrShuttingDown
	}
	s.owns = true
	return nil
}

func (p *Process) exit(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, s)
	if len(p.calls) == 0 && p.closing {
		close(p.idle)
	}
}
