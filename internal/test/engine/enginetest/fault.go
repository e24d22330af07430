package enginetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A kind is a kind of fault. With late, amid and later, a function of the bot ignores the end of its context until
// then.
type kind int

const (
	nothing kind = iota
	before       // an error, and no effect
	// after: the call takes effect, but the answer is an error, as after a lost reply.
	after
	// late: an error. The call takes effect when the call of the process has returned.
	late
	amid  // late, during the second's turn
	later // late, after the second process
	hang  // until its context ends
	// down: an error and no effect, here and at every later call to a store.
	down
	// mute: the call takes effect, but the answer is an error, here and at every later call to a store.
	mute
	// leave: the caller gives up. The call itself is answered.
	leave
	// doze: the process stops, and goes on without notice in the middle of a turn of the second process.
	doze
	stall // doze, until the second is done
	// die: the process ends. No later call takes effect.
	die
	// twice: the call takes effect and is answered. A copy of the request arrives when the call of the process has
	// returned.
	twice
)

var kinds = []kind{before, after, late, amid, later, hang, down, mute, leave, doze, stall, die, twice}

func (k kind) String() string {
	return [...]string{
		"nothing", "before", "after", "late", "amid", "later", "hang", "down", "mute", "leave", "doze", "stall", "die",
		"twice",
	}[k]
}

// patience returns the SettleTimeout with which the engine outlasts a fault. 0 means the default, for a fault that
// takes no time.
func (k kind) patience() time.Duration {
	switch k {
	case late, amid, later, hang, down, mute:
		return passing
	}
	return 0
}

// passing is how long a fault takes that ends by itself. It is doubled for a trial for which the machine was too
// slow.
const passing = 600 * time.Millisecond

var (
	errFault = errors.New("the fault of the matrix")
	// errDead is a verdict, so that the engine does not try for long.
	errDead = fmt.Errorf("the process is dead: %w", lock.ErrFenced)
)

// A fault hits a process at its nth point, or at the nth point with a name.
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

// soak reports whether there is time for all faults.
func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }

// kindsAt returns the kinds of fault for the ith point. Without a soak, similar kinds take turns.
func (sc *scenario) kindsAt(name string, i int) []kind {
	turns := func(some ...kind) kind { return some[i/2%len(some)] }
	all := []kind{before, after, turns(late, amid, later), hang, turns(down, mute), leave, turns(doze, stall), die}
	switch {
	case sc.silent:
		all = []kind{stall, die}
	case sc.expires:
		all = []kind{hang, stall, die}
	// Effect and answer are the same thing here.
	case isRead(name):
		all = []kind{before, hang, leave, stall, die}
	case isFunction(name) && soak():
		all = slices.DeleteFunc(slices.Clone(kinds), kind.onlyCalls)
	case soak():
		all = kinds
	case isFunction(name):
		all = []kind{turns(before, after), turns(late, amid, later), turns(hang, leave), turns(doze, stall, die)}
	// The engine repeats every other write by itself, or a repeat does no harm.
	case name == "begin":
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

// dozes reports whether the process may doze here and go on in the middle of a turn of the second process. Delete would
// take the session from the second process. Every other call but Abandon would wait for the end of that turn.
func (sc *scenario) dozes(name string) bool {
	switch sc.act.name {
	case abandon.name:
		return !isRead(name)
	case remove.name:
		return !isRead(name) && name != "claim" && name != "steal"
	}
	return !isRead(name) && name != "claim"
}

// waits reports whether the process under test ends, or its requests arrive, after the second process has begun.
func (k kind) waits() bool { return slices.Contains([]kind{amid, later, doze, stall}, k) }

// lasts reports whether all calls to the stores suffer from here on.
func (k kind) lasts() bool { return k == down || k == mute }

// needsMiddle reports whether the fault passes in the middle of a turn of the second process.
func (k kind) needsMiddle() bool { return k == amid || k == doze }

// onlyCalls reports whether only calls to the stores suffer the fault.
func (k kind) onlyCalls() bool { return k.lasts() || k == twice }

// stops reports whether the process stops and goes on.
func (k kind) stops() bool { return k == doze || k == stall }

func isRead(name string) bool {
	return slices.Contains([]string{"turns", "sessions", "runs", "effects"}, name)
}

func isFunction(name string) bool {
	return slices.Contains([]string{
		"Begin", "Route", "a", "b", "c", "d", "Evaluate", "Deliver", payAsk, payVerifiable, payIdempotent, payPure,
	}, name)
}

// isUnfenced reports whether a call says nothing about a new owner.
func isUnfenced(name string) bool {
	return slices.Contains([]string{logStarted, logLLM, logSettled}, name)
}

// repeated reports whether the owner of a session repeats a call to a store until it is answered.
func repeated(name string) bool {
	return slices.Contains([]string{
		"adopt", "save", "end", "append", "mark", "delete", "take", "issue", "finish", "record", logStarted, logLLM,
		logSettled,
	}, name)
}

// spared reports whether a call to a store may fail without a change of the caller's answer: the next owner can repeat
// the call.
func spared(name string) bool { return slices.Contains([]string{"drop", "release"}, name) }
