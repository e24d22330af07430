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
)

// session is the one of every history, each of which has an orchestrator of its own.
const session = "s"

// A world is what processes leave behind, and what really happened.
type world struct {
	Stores
	orchestrator string
	bot          bot

	mu        sync.Mutex // protects following fields
	lease     *checkpoint.Lease
	born      int64 // of the session
	runs      map[string]*run
	delivered []*Result
	told      []*Result
	mayRepeat bool              // the fault was where a turn is delivered
	again     bool              // the second process is asked what the first was
	failed    map[string]string // by the id of a run that was told as failed: how
	wrong     []Wrong
	noise     error // nobody's fault: a store failed by itself, or the machine is slow. The history is repeated
	log       []entry
}

// A run is the truth about one.
type run struct {
	known bool            // it was recorded, once
	begun bool            // recorded, and not ended since
	kept  bool            // settled
	back  bool            // recorded again after it had settled
	base  string          // what was saved last started from it
	saved int             // iterations whose save was acknowledged
	done  map[string]bool // branches of the iteration under way whose save was acknowledged
	found map[string]bool // branches that are in the store
	ran   map[string]int  // by intent and iteration
}

// An entry of the log is formatted when somebody reads it.
type entry struct {
	format string
	args   []any
}

func newWorld(s Stores, orchestrator string, b bot) *world {
	return &world{
		Stores: s, orchestrator: orchestrator, bot: b,
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

// accuse notes what the engine did wrong.
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

// wrote looks at what a store answers to a call that writes.
func (w *world) wrote(err error) error {
	for _, verdict := range []error{nil, lock.ErrFenced, lock.ErrHeld, checkpoint.ErrConflict, snapshot.ErrNotFound, snapshot.ErrParked} {
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
	if k == hang || errors.Is(err, context.DeadlineExceeded) { // there may have been no time left
		w.noise = err
	} else {
		w.accuseLocked(Healed, "%w", err)
	}
}

func (w *world) claimed(c checkpoint.Claimed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease, w.born = &c.Lease, c.Born
}

func (w *world) released(l checkpoint.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease != nil && *w.lease == l {
		w.lease = nil
	}
}

// bury ends the lease of a process that did not release it, as if it had expired.
func (w *world) bury(ctx context.Context) {
	w.mu.Lock()
	held := w.lease != nil
	w.lease = nil
	w.mu.Unlock()
	if !held {
		return
	}
	c, err := w.Checkpoints.Claim(ctx, w.key(), checkpoint.ClaimRequest{Owner: "undertaker", Nonce: nonce(), TTL: hour, Steal: true})
	if err == nil {
		err = w.Checkpoints.Mark(ctx, c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		w.accuse(Healthy, "ending the lease: %v", err)
	}
}

func nonce() string { return rand.Text() }

func (w *world) runLocked(id string) *run {
	r := w.runs[id]
	if r == nil {
		r = &run{ran: make(map[string]int)}
		r.restart(0)
		w.runs[id] = r
	}
	return r
}

// appended notes that a turn is settled.
func (w *world) appended(l checkpoint.Lease, id string, release bool) {
	if release {
		w.released(l)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runLocked(id).kept = true
}

// began notes that a run was recorded. The same again is a new one: its input came again after it had ended.
func (w *world) began(r snapshot.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	truth := w.runLocked(r.ID)
	truth.known, truth.base = true, r.Base
	truth.begun = progress(r).Born == w.born // else it is of a session that was deleted
	truth.back = truth.kept
	truth.restart(0)
}

func (r *run) restart(iteration int) {
	r.saved, r.done, r.found = iteration, make(map[string]bool), make(map[string]bool)
}

// saved notes what the store has, whether or not its owner was told.
func (w *world) saved(r snapshot.Run, s saving) {
	w.mu.Lock()
	defer w.mu.Unlock()
	truth := w.runLocked(r.ID)
	if r.Status == snapshot.Ended {
		truth.begun = false
	}
	for _, b := range s.Done {
		truth.found[b.Intent] = true
	}
}

// acknowledged notes what does not run again.
func (w *world) acknowledged(r snapshot.Run, s saving) {
	w.mu.Lock()
	defer w.mu.Unlock()
	truth := w.runLocked(r.ID)
	switch {
	case r.Base != truth.base: // it started over
		truth.base = r.Base
		truth.restart(s.Iteration)
	case s.Iteration > truth.saved:
		truth.saved, truth.done = s.Iteration, make(map[string]bool)
	}
	if s.Iteration == truth.saved {
		for _, b := range s.Done {
			truth.done[b.Intent] = true
		}
	}
}

// deleted notes that the session is gone, and all its runs with it.
func (w *world) deleted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		r.begun, r.kept = false, false
	}
	w.lease, w.born, w.told, w.delivered = nil, 0, nil, nil
}

// starts checks that a function may run.
func (p *process) starts(id string, iteration int, intent string) {
	if p.isUnaware() {
		return // no fence can stop it
	}
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[id]
	switch {
	case w.bot.volatile:
	case r == nil || !r.known:
		w.accuseLocked(Begun, "%s ran before the run was recorded", intent)
	case !r.begun:
		w.accuseLocked(Begun, "%s ran although the run had ended", intent)
	case iteration < r.saved:
		w.accuseLocked(Saved, "%s ran again in iteration %d, although %d are saved", intent, iteration, r.saved)
	case iteration == r.saved && r.done[intent]:
		w.accuseLocked(Saved, "branch %s ran again, although it is saved", intent)
	}
}

func (w *world) branchFound(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[id]
	return r != nil && r.found["b"]
}

// ran counts an effect.
func (w *world) ran(id string, iteration int, intent string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runLocked(id).ran[at(intent, iteration)]++
}

func at(intent string, iteration int) string {
	return fmt.Sprintf("%s in iteration %d", intent, iteration)
}

// hands notes what Deliver got.
func (w *world) hands(res *Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delivered = append(w.delivered, res)
}

// redeliver notes that a turn may be delivered twice.
func (w *world) redeliver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mayRepeat = true
}

// forgive notes that the caller of the process under test asks for the same again, whatever it was told.
func (w *world) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	clear(w.failed)
}

// miss notes that the fault has not come where it should.
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

// hears notes what the caller of a turn is told.
func (w *world) hears(res *Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; res != nil; res = res.Resumed {
		if !slices.Contains(w.told, res) {
			w.told = append(w.told, res)
		}
	}
}

// history is what happened, for people.
func (w *world) history() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := make([]string, len(w.log))
	for i, e := range w.log {
		lines[i] = fmt.Sprintf(e.format, e.args...)
	}
	return lines
}
