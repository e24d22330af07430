package orchestrator_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Notes are what the functions of a bot have done in all processes, whether or not the engine has kept it, and what
// they should not have done.
type notes struct {
	firsts firsts

	mu     sync.Mutex // protects following fields
	faults []string
	landed map[string]string        // values of the effects in the world, by key
	paid   map[string]int           // how often each effect happened, by name
	told   []int                    // turns whose replies were delivered
	used   map[string]map[place]int // usage, by run and place

	// branches have finished since the last save. saved are those that a save has.
	branches []place
	saved    map[place]bool

	begun     map[string]bool // runs that are stored
	iteration map[string]int  // the newest one of each run
}

func newNotes() *notes {
	return &notes{
		landed: make(map[string]string), paid: make(map[string]int), used: make(map[string]map[place]int),
		saved: make(map[place]bool), begun: make(map[string]bool), iteration: make(map[string]int),
	}
}

// fault notes what should not have happened.
func (n *notes) fault(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faultLocked(format, args...)
}

// faultLocked is fault for a caller that holds mu.
func (n *notes) faultLocked(format string, args ...any) {
	n.faults = append(n.faults, fmt.Sprintf(format, args...))
}

// enter notes that a function begins. A branch that is saved does not run again. With a snapshot store, nor does a
// function of an earlier iteration, nor Begin of a run that is stored.
func (n *notes) enter(p *plan, run string, at place, used int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.saved[at] {
		n.faultLocked("%v runs again", at)
	}
	if p.withSnapshots {
		switch {
		case at.where == "begin" && n.begun[run]:
			n.faultLocked("%v runs again", at)
		case at.where != "begin" && at.iteration < n.iteration[run]:
			n.faultLocked("%v runs, and iteration %d had begun", at, n.iteration[run])
		}
		n.iteration[run] = max(n.iteration[run], at.iteration)
	}
	if n.used[run] == nil {
		n.used[run] = make(map[place]int)
	}
	n.used[run][at] = used
}

// leave notes that a function has finished.
func (n *notes) leave(at place) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.item > 0 {
		n.branches = append(n.branches, at)
	}
}

// buried notes that the process is dead. What it has not saved is lost.
func (n *notes) buried() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.branches = nil
}

// written notes a write that took effect. If a run has ended and its caller has not heard of it, the input begins a
// run again.
func (n *notes) written(c faulttest.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case c.Method == "Begin":
		n.begun[c.Run] = true
	case c.Method == "Save" && c.Status == snapshot.Ended:
		delete(n.begun, c.Run)
		delete(n.iteration, c.Run)
		clear(n.saved)
		n.branches = nil
	case c.Method == "Save":
		for _, at := range n.branches {
			n.saved[at] = true
		}
		n.branches = nil
	}
}

// pay notes that an effect has happened. If it is idempotent, a second call with the same key does nothing.
func (n *notes) pay(name, key, value string, idempotent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, landed := n.landed[key]; !landed || !idempotent {
		n.paid[name]++
	}
	n.landed[key] = value
}

func (n *notes) landedAt(key string) (value string, landed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	value, landed = n.landed[key]
	return value, landed
}

// tell notes the delivery of a reply, which may come more than once.
func (n *notes) tell(turn int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := len(n.told) - 1; last < 0 || n.told[last] != turn {
		n.told = append(n.told, turn)
	}
}

// checkEffects notes an effect that happened twice, and deliveries out of order.
func (n *notes) checkEffects() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(n.paid)) {
		if times := n.paid[name]; times > 1 {
			n.faultLocked("%s happened %d times, want once", name, times)
		}
	}
	if !slices.IsSorted(n.told) {
		n.faultLocked("delivered the turns %v, want them in their order", n.told)
	}
}

// usedBy adds up what the functions of a run have used that are in. Each counts once, however often it ran.
func (n *notes) usedBy(run string, in func(place) bool) (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, used := range n.used[run] {
		if in(at) {
			sum += used
		}
	}
	return sum
}

// firsts tell the first call for a thing from the others. The zero value is ready.
type firsts struct {
	mu   sync.Mutex // protects following field
	seen map[string]bool
}

func (f *firsts) isFirst(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[what] {
		return false
	}
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	f.seen[what] = true
	return true
}
