package enginetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run is the truth about one run of the bot, in this life of the session.
type run struct {
	known bool // has begun at least once
	begun bool // has begun, has not ended
	kept  bool // has settled
	gone  bool // its session was deleted
	// refused: the fence of a later owner has refused a Begin of the run.
	refused bool
	// volatile: a process without a snapshot store runs the run.
	volatile bool

	// base is the run whose turn the run started from, in the last save.
	base   string
	turn   int   // turn number in the last save
	seq    int64 // Seq of the last save
	stored int   // iterations in the stored payload

	saved int // iterations acknowledged as saved
	// done are the functions of the current iteration whose save was acknowledged.
	done map[string]bool
	// found are the functions of the current iteration that the store has.
	found map[string]bool
	ran   map[string]int // effects by intent and iteration
}

// restart sets the progress of the run to zero.
func (r *run) restart() {
	r.saved, r.done, r.found = 0, make(map[string]bool), make(map[string]bool)
	r.ran = make(map[string]int)
}

func (w *world) runLocked(id string) *run {
	r := w.runs[id]
	if r == nil {
		r = new(run)
		r.restart()
		w.runs[id] = r
	}
	return r
}

// A saving is the progress of a run, in one document that the engine saves.
type saving struct {
	Born      int64
	Iteration int
	// done are functions that do not run again in the iteration: branches, and Route.
	done []string
}

// Names of the parts of a run: the decision for a fan-out, and one branch that is finished.
const (
	fanPart    = "fan"
	branchPart = "branch " // followed by its place
)

// eachItem names the branches of e: its items, by their places.
var eachItem = map[string]string{"0": "b", "1": "c"}

// progress reads a save. A save without a payload belongs to the iteration of the stored payload.
func (w *world) progress(r snapshot.Run) (s saving) {
	_ = json.Unmarshal(r.Payload, &s) // stores accept only JSON
	if r.Payload == nil {
		s.Iteration = w.iteration(r.ID)
	}
	if r.Parts[fanPart] != nil {
		s.done = append(s.done, "Route")
	}
	for name, doc := range r.Parts {
		var branch struct{ Intent string }
		place, isBranch := strings.CutPrefix(name, branchPart)
		switch {
		case !isBranch || json.Unmarshal(doc, &branch) != nil:
		case branch.Intent == "e":
			s.done = append(s.done, eachItem[place])
		default:
			s.done = append(s.done, branch.Intent)
		}
	}
	return s
}

// iteration returns how many iterations the stored payload has.
func (w *world) iteration(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runLocked(id).stored
}

// began notes a Begin. If the id is known, it is a new run: its input came again after the run had ended.
func (w *world) began(r snapshot.Run) {
	come := w.progress(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == "" {
		w.first = r.ID
	}
	truth := w.runLocked(r.ID)
	truth.known, truth.base, truth.turn = true, r.Base, r.Turn
	// Otherwise the run belongs to a deleted session.
	truth.begun = come.Born == w.born
	truth.seq, truth.stored = r.Seq, come.Iteration
	truth.restart()
}

// refused notes that a Begin came after the Begin of a later owner, who may have settled the run.
func (w *world) refused(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runLocked(id).refused = true
}

// firstRun names the run that Abandon must end. If no run was begun yet, the name fits no run.
func (w *world) firstRun() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.first, "none")
}

// saved notes the stored progress, whether the owner was told or not.
func (w *world) saved(r snapshot.Run, s saving) {
	w.mu.Lock()
	defer w.mu.Unlock()
	truth := w.runLocked(r.ID)
	if r.Seq <= truth.seq { // a repeat, or a late copy
		return
	}
	truth.seq = r.Seq
	if r.Status == snapshot.Ended {
		truth.begun = false
	}
	if r.Base != truth.base { // it started over
		truth.base, truth.turn = r.Base, r.Turn
		truth.restart()
	}
	if r.Payload != nil { // it replaces all earlier saves
		truth.stored, truth.found = s.Iteration, make(map[string]bool)
	}
	for _, name := range s.done {
		truth.found[name] = true
	}
}

// acknowledged notes the functions that must not run again.
func (w *world) acknowledged(r snapshot.Run, s saving) {
	w.mu.Lock()
	defer w.mu.Unlock()
	truth := w.runLocked(r.ID)
	if s.Iteration > truth.saved {
		truth.saved, truth.done = s.Iteration, make(map[string]bool)
	}
	if s.Iteration == truth.saved {
		for _, name := range s.done {
			truth.done[name] = true
		}
	}
}

// abandoned notes the answer to the caller of Abandon.
func (w *world) abandoned(id string, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := w.runs[id]; {
	case ended && !w.again:
		w.failed[id] = orchestrator.ErrAbandoned.Error()
	case !ended && r != nil && r.begun && !r.kept:
		w.accuseLocked(Accepted, "the caller of Abandon is told that run %s is not in flight", id)
	}
}

// prepares checks that Begin may run. If the run is in flight, another turn must have settled since.
func (p *process) prepares(id string, turn int) {
	unaware := p.isUnaware()
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.runs[id]; r != nil && r.begun && !r.kept && r.turn == turn && !unaware {
		w.accuseLocked(Saved, "Begin ran again, although the run has begun")
	}
}

// starts checks that a function may run.
func (p *process) starts(id string, iteration int, name string) {
	unaware := p.isUnaware()
	if name == "b" || name == "c" {
		unaware = p.branchStarts(id, name)
	}
	w := p.world
	if !unaware && !p.isVolatile() {
		w.isOpen(id, name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[id]
	switch {
	case p.isVolatile(): // no run is saved
		w.runLocked(id).volatile = true
	case unaware: // no fence can stop it
	case r == nil || !r.known:
		w.accuseLocked(Begun, "%s ran before the run had begun", name)
	case !r.begun:
		w.accuseLocked(Begun, "%s ran although the run had ended", name)
	case r.kept:
		w.accuseLocked(Begun, "%s ran although the run had settled", name)
	case iteration < r.saved:
		w.accuseLocked(Saved, "%s ran again in iteration %d, although %d are saved", name, iteration, r.saved)
	case iteration == r.saved && r.done[name]:
		w.accuseLocked(Saved, "%s ran again, although it is saved", name)
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
