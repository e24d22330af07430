package enginetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A kind is what happens at a point. A function of the bot that is late, amid or later ignores the end of its context
// until then.
type kind int

const (
	nothing kind = iota
	before       // an error, and no effect
	after        // takes effect, but the answer is an error: a lost reply
	late         // an error; takes effect when the call of the process has returned
	amid         // the same, in the middle of a turn of the second process
	later        // the same, when the second process is done
	hang         // until its context ends; no effect
	down         // an error, and no effect, here and at every call to a store from here on
	mute         // takes effect, but the answer is an error, here and at every call to a store from here on
	leave        // the caller gives up; the call itself is answered
	doze         // the process stops, and goes on as if nothing had happened in the middle of a turn of the second one
	stall        // the same, when the second one is done
	die          // the process ends: nothing that it does from here on takes effect
	twice        // takes effect and is answered; a copy of the request arrives when the call of the process has returned
)

var kinds = []kind{before, after, late, amid, later, hang, down, mute, leave, doze, stall, die, twice}

func (k kind) String() string {
	return [...]string{
		"nothing", "before", "after", "late", "amid", "later", "hang", "down", "mute", "leave", "doze", "stall", "die",
		"twice",
	}[k]
}

// patience is the SettleTimeout under which a fault passes: 0 is the default, since it takes no time.
func (k kind) patience() time.Duration {
	switch k {
	case late, amid, later, hang, down, mute:
		return passing
	}
	return 0
}

// passing is how long a fault takes that has to end by itself. It is doubled for a history that found the machine too
// slow.
const passing = 600 * time.Millisecond

var (
	errFault = errors.New("the fault of the matrix")
	errDead  = fmt.Errorf("the process is dead: %w", lock.ErrFenced) // a verdict, so that it does not try for long
)

// A fault is one that a process suffers, at its nth point, or at the nth that has a name.
type fault struct {
	kind kind
	name string
	n    int // 0: none
}

func (f fault) hits(points []string) bool {
	if f.name == "" {
		return len(points) == f.n
	}
	named := 0
	for _, p := range points {
		if p == f.name {
			named++
		}
	}
	return points[len(points)-1] == f.name && named == f.n
}

// soak reports whether there is time for everything.
func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }

// kindsAt are the faults of the ith point. Without a soak those that differ little there take turns.
func (sc *scenario) kindsAt(name string, i int) []kind {
	turns := func(some ...kind) kind { return some[i/2%len(some)] }
	all := []kind{before, after, turns(late, amid, later), hang, turns(down, mute), leave, turns(doze, stall), die}
	switch {
	case sc.expires:
		all = []kind{hang, stall, die}
	case isRead(name): // effect and answer are one
		all = []kind{before, hang, leave, stall, die}
	case isFunction(name) && soak():
		all = slices.DeleteFunc(slices.Clone(kinds), kind.onlyCalls)
	case soak():
		all = kinds
	case isFunction(name):
		all = []kind{turns(before, after), turns(late, amid, later), turns(hang, leave), turns(doze, stall, die)}
	case name == "begin": // the engine repeats every other write by itself, or does not mind one that is repeated
		all = append(all, twice)
	}
	var possible []kind
	for _, k := range all {
		if k == doze && !sc.dozes(name) {
			k = stall
		}
		if !slices.Contains(possible, k) {
			possible = append(possible, k)
		}
	}
	return possible
}

// dozes reports whether the process may go on from here in the middle of a turn of the second one. Delete would take
// the session from the second process. Every other call but Abandon would wait for the end of that turn.
func (sc *scenario) dozes(name string) bool {
	switch sc.act.name {
	case abandon.name:
		return !isRead(name)
	case remove.name:
		return !isRead(name) && name != "claim" && name != "steal"
	}
	return !isRead(name) && name != "claim"
}

// waits reports whether the process under test ends, or its requests arrive, after the second one has begun.
func (k kind) waits() bool { return slices.Contains([]kind{amid, later, doze, stall}, k) }

// lasts reports whether all calls to the stores suffer from here on.
func (k kind) lasts() bool { return k == down || k == mute }

// needsMiddle reports whether the fault passes in the middle of a turn of the second process.
func (k kind) needsMiddle() bool { return k == amid || k == doze }

// onlyCalls reports whether only calls to the stores suffer the fault.
func (k kind) onlyCalls() bool { return k.lasts() || k == twice }

// stops reports whether the process stops and goes on.
func (k kind) stops() bool { return k == doze || k == stall }

func isRead(name string) bool { return slices.Contains([]string{"turns", "sessions", "runs"}, name) }

func isFunction(name string) bool {
	return slices.Contains([]string{"Begin", "Route", "a", "b", "c", "d", "Evaluate", "Deliver"}, name)
}

// repeated reports whether the owner of a session repeats a call to a store until it is answered.
func repeated(name string) bool {
	return slices.Contains([]string{"adopt", "save", "end", "append", "mark", "delete"}, name)
}

// spared reports whether a call to a store may fail without changing what its caller is told: the next owner can do it.
func spared(name string) bool { return slices.Contains([]string{"drop", "release"}, name) }
