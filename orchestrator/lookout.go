package orchestrator

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A lookout notes which suspended runs a drain is to look at. To look at all of them each time would cost too much.
type lookout struct {
	mu sync.Mutex // protects following fields

	// whole is when the last look at all suspended runs began, and last when the last look of any kind began.
	whole, last time.Time

	// keyed is when the newest effect with a Key, or of another bot, was answered of those that a look at all suspended
	// runs has followed.
	keyed time.Time

	// again are the runs that the next look is about too. They have been answered, and did not go on until now. Or they
	// were still at work when a person answered.
	again map[aRun]bool
}

const (
	// wholeEvery is how often a process looks at all suspended runs.
	wholeEvery = 5 * time.Minute
	// lateAnswer is how long the transaction of an answer may take. If it takes longer, the next look at all suspended
	// runs finds the answer.
	lateAnswer = time.Minute
)

// due reports whether it is time to look at all suspended runs.
func (l *lookout) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole.IsZero() || now.Sub(l.whole) >= wholeEvery
}

// saw sets whether the next look is about r too.
func (l *lookout) saw(r aRun, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !again {
		delete(l.again, r)
		return
	}
	if l.again == nil {
		l.again = make(map[aRun]bool)
	}
	l.again[r] = true
}

// past returns what the last look has left for one that begins now: the runs to look at again, and since when a person
// may have answered. keyed is as in lookout.
func (l *lookout) past(began time.Time) (again []aRun, since time.Duration, keyed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.again)), began.Sub(l.last) + lateAnswer, l.keyed
}

// done notes a look that has come to its end.
func (l *lookout) done(k look, keyed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last, l.keyed = k.began, keyed; k.whole {
		l.whole = k.began
	}
}

// An aRun names a run.
type aRun struct{ session, id string }

// A look is one search for suspended runs that go on.
type look struct {
	began time.Time
	// whole says that the look is at all suspended runs, which are suspended. partial says that some could not be
	// reached: then the next look is about the same.
	whole     bool
	partial   bool
	suspended []aRun

	// parked are the parked runs, and when each was last saved; only if the look is whole.
	parked map[aRun]time.Time
}
