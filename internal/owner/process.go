package owner

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/lock"
)

// Why a call does not become the owner of its session, or does not stay it.
var (
	ErrBusy         = errors.New("session is busy")
	ErrShuttingDown = errors.New("shutting down")
	ErrAbandoned    = errors.New("run abandoned")
	ErrReentrant    = errors.New("session is already in this call")
)

// Options are what a Process is made of. Only Locker may be nil.
type Options struct {
	Orchestrator  string // whose sessions they are
	Name          string // of the process, unique for each start
	Store         checkpoint.Store
	Locker        lock.Locker
	LeaseTTL      time.Duration
	LockWait      time.Duration // for a session that somebody owns
	SettleTimeout time.Duration // of a call to a store that has to be answered
	Logger        *slog.Logger
	Why           func(error) slog.Attr // what a record says of an error
	Waited        func(since time.Time) // is told when a call has become an owner
}

// A Process owns sessions of one orchestrator.
type Process struct {
	Options
	queues    queue.Keyed // of the calls in this process, before anything is asked of a server
	stretches stretches
	leases    *keeper.Keeper[checkpoint.Lease]

	mu      sync.Mutex // protects following fields
	calls   map[*Session]struct{}
	closing bool
	idle    chan struct{} // closed when the last call ends after closing
}

// New returns a process that owns nothing.
func New(o Options) *Process {
	p := &Process{Options: o, calls: make(map[*Session]struct{})}
	p.leases = keeper.New(o.LeaseTTL, p.renew)
	return p
}

// Interrupt ends the context of the owner of session in this process with cause, if it is at work on the run with runID; on
// any if that is "". It reports whether there was one.
func (p *Process) Interrupt(session, runID string, cause error) (found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.calls {
		if s.owns && s.scope.session == session && (runID == "" || s.scope.worksOn(runID)) {
			s.take(cause)
			found = true
		}
	}
	return found
}

// Close lets no call begin any more, except from within a turn that is under way. It sends those away that wait, and returns
// what is closed once all have ended.
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

// Sessions are those of all calls.
func (p *Process) Sessions() []*Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.calls))
}

func (p *Process) enter(s *Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing && !s.scope.outer.within(p) {
		return ErrShuttingDown
	}
	p.calls[s] = struct{}{}
	return nil
}

// own notes that s is the owner of its session, unless it is too late to begin anything.
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
