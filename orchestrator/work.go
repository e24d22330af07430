package orchestrator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// work is what this process is doing: what Shutdown waits for, and Abandon interrupts.
type work struct {
	mu      sync.Mutex // protects following fields
	calls   map[*session]struct{}
	closing bool
	idle    chan struct{} // closed when the last call ends after closing
}

func (w *work) enter(s *session) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing && !s.held.outer.nested(s.engine) {
		return ErrShuttingDown
	}
	if w.calls == nil {
		w.calls = make(map[*session]struct{})
	}
	w.calls[s] = struct{}{}
	return nil
}

// own notes that s is the owner of its session, unless it is too late to begin anything.
func (w *work) own(s *session) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing && !s.held.outer.nested(s.engine) {
		return ErrShuttingDown
	}
	s.owns = true
	return nil
}

func (w *work) exit(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, s)
	if len(w.calls) == 0 && w.closing {
		close(w.idle)
	}
}

// sessions are those of all calls.
func (w *work) sessions() []*session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.calls))
}

// interrupt cancels the owner of id in this process, if it is at work on the run with runID; on any if that is "". It reports
// whether there was one.
func (w *work) interrupt(id, runID string, cause error) (found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.calls {
		if s.owns && s.held.session == id && (runID == "" || s.held.worksOn(runID)) {
			s.take(cause)
			found = true
		}
	}
	return found
}

// close lets nobody in any more, sends those away that wait, and returns what is closed once all are out.
func (w *work) close() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing {
		w.closing = true
		w.idle = make(chan struct{})
		if len(w.calls) == 0 {
			close(w.idle)
		}
	}
	for s := range w.calls {
		if !s.owns && !s.held.outer.nested(s.engine) {
			s.cancel(ErrShuttingDown)
		}
	}
	return w.idle
}

// handOff ends what is under way.
func (w *work) handOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.calls {
		if s.owns {
			s.handOff()
		}
	}
}

func (w *work) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls)
}

// Shutdown refuses new turns, waits for those under way until ctx ends, and hands the rest off: with a snapshot store
// they are left in flight for whoever comes next, and their callers get ErrIndeterminate and lock.ErrHandoff. It returns when all calls have ended, with
// an error only if some have not: a function of the bot went on. Close the stores' clients after it.
func (o *Orchestrator[S]) Shutdown(ctx context.Context) error {
	idle := o.work.close()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	o.work.handOff()
	patience := time.NewTimer(3 * o.Limits.SettleTimeout) // a function ends, its turn is left, the session released
	defer patience.Stop()
	select {
	case <-idle:
		return nil
	case <-patience.C:
		return &Error{Op: "shutdown", Err: fmt.Errorf("%d calls have not ended", o.work.left())}
	}
}
