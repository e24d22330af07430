package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// session is the session of every trial. Each trial has an orchestrator of its own.
const session = "s"

// A world is the data that processes leave behind, and the true events.
type world struct {
	Stores
	orchestrator string
	bot          bot

	mu     sync.Mutex // protects following fields
	lease  *checkpoint.Lease
	latest checkpoint.Lease
	born   int64 // of the session, 0: none
	// heldBack: a delivery has failed, and drains leave it for a while.
	heldBack  bool
	first     string // the first run begun
	runs      map[string]*run
	payments  map[string]*payment // by key
	delivered []*Result
	told      []*Result
	mayRepeat bool // the fault hit a delivery
	// again: the second process gets the act of the first.
	again bool
	// failed is how each failed run was told to its caller, by id.
	failed map[string]string
	wrong  []Wrong
	// noise is no fault of the engine: a store failed by itself, or the machine is slow. The trial is repeated.
	noise error
	log   []entry
}

// An entry of the log is formatted only when it is read.
type entry struct {
	format string
	args   []any
}

func newWorld(s Stores, orchestrator string, b bot) *world {
	return &world{
		Stores: s.alone(), orchestrator: orchestrator, bot: b,
		runs: make(map[string]*run), failed: make(map[string]string),
	}
}

func (w *world) key() checkpoint.Key {
	return checkpoint.Key{Orchestrator: w.orchestrator, Session: session}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, entry{format, args})
}

// accuse notes a fault of the engine.
func (w *world) accuse(law, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accuseLocked(law, format, args...)
}

func (w *world) accuseLocked(law, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.wrong = append(w.wrong, Wrong{law, err})
	w.log = append(w.log, entry{"WRONG: %v", []any{err}})
}

// wrote checks the answer of a store to a write.
func (w *world) wrote(err error) error {
	for _, verdict := range []error{
		nil, lock.ErrFenced, lock.ErrHeld, checkpoint.ErrConflict, snapshot.ErrNotFound, snapshot.ErrParked,
		turnlog.ErrChanged,
	} {
		if errors.Is(err, verdict) {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noise = fmt.Errorf("a store fails by itself: %w", err)
	return err
}

// mustHeal notes that a call should have ended as if there had been no fault.
func (w *world) mustHeal(a act, k kind, err error) {
	if err == nil {
		return
	}
	err = fmt.Errorf("%s is not healed: %w", a.name, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if k == hang || errors.Is(err, context.DeadlineExceeded) { // perhaps no time was left
		w.noise = err
	} else {
		w.accuseLocked(Healed, "%w", err)
	}
}

func (w *world) claimed(c checkpoint.Claimed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease, w.latest, w.born = &c.Lease, c.Lease, c.Born
}

func (w *world) released(l checkpoint.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease != nil && *w.lease == l {
		w.lease = nil
	}
}

// bury ends the lease of a process that did not release its session, as if the lease had expired.
func (w *world) bury(ctx context.Context) {
	w.mu.Lock()
	held := w.lease
	w.lease = nil
	w.mu.Unlock()
	if held == nil {
		return
	}
	r := checkpoint.ClaimRequest{Owner: undertaker, Nonce: nonce(), TTL: hour, From: held.Fence}
	c, err := w.Checkpoints.Claim(ctx, w.key(), r)
	if err == nil {
		w.claimed(c)
		err = w.Checkpoints.Mark(ctx, c.Lease, checkpoint.Marks{Release: true})
		w.released(c.Lease)
	}
	if err != nil {
		w.accuse(Healthy, "ending the lease: %v", err)
	}
}

// undertaker owns a session while bury ends its lease.
const undertaker = "undertaker"

func nonce() string { return rand.Text() }

// appended notes that a turn is settled.
func (w *world) appended(l checkpoint.Lease, id string, release bool) {
	if release {
		w.released(l)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runLocked(id).kept = true
}

// marked notes the changes of a mark.
func (w *world) marked(l checkpoint.Lease, m checkpoint.Marks) {
	if m.Release {
		w.released(l)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.Retry > 0:
		w.heldBack = true
	case m.Delivered > 0:
		w.heldBack = false
	}
}

func (w *world) isHeldBack() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heldBack
}

// deleted notes that the session of l is gone, with all its runs. If a later lease was granted, the session must still
// be there.
func (w *world) deleted(l checkpoint.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l != w.latest {
		return
	}
	for _, r := range w.runs {
		r.begun, r.kept, r.gone = false, false, true
	}
	w.lease, w.born, w.told, w.delivered, w.heldBack = nil, 0, nil, nil, false
}

// removed notes that the caller of Delete was told that the session is gone.
func (w *world) removed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.born != 0 {
		w.accuseLocked(Accepted, "the caller of Delete is told that the session is gone, and it is not")
	}
}

// hands notes the turn that Deliver got.
func (w *world) hands(res *Result) {
	w.isLogged(res.RunID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.runLocked(res.RunID).gone {
		w.delivered = append(w.delivered, res)
	}
}

// redeliver notes that a turn may be delivered twice.
func (w *world) redeliver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mayRepeat = true
}

// forgive notes that the caller of the process under test sends the same input again after any answer.
func (w *world) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	clear(w.failed)
}

// retries notes that a caller sends an input again after a failure.
func (w *world) retries() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.failed)
}

// miss notes that the fault did not come at its point.
func (w *world) miss(hit, want string, points []string, excused bool) {
	err := fmt.Errorf("the fault is at %q, not at %q: the points are %v", hit, want, points)
	w.mu.Lock()
	defer w.mu.Unlock()
	if excused {
		w.noise = err
	} else {
		w.accuseLocked(Healthy, "%w", err)
	}
}

// hears notes the answer to the caller of a turn.
func (w *world) hears(res *Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; res != nil; res = res.Resumed {
		if !w.runLocked(res.RunID).gone && !slices.Contains(w.told, res) {
			w.told = append(w.told, res)
		}
	}
}

// events lists what happened, for people.
func (w *world) events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := make([]string, len(w.log))
	for i, e := range w.log {
		lines[i] = fmt.Sprintf(e.format, e.args...)
	}
	return lines
}
