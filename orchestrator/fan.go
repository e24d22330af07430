package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// A fan is a fan-out in progress. Its branches are named by their place in the decision.
type fan struct {
	decided storedFan
	start   json.RawMessage // the state that every branch gets
	bot     differ          // compares it with others
	stored  bool            // the snapshot store has the decision

	branches []branch // of the decision, in its order

	mu   sync.Mutex // protects following fields
	done map[int]storedBranch

	// unsaved are the branches of done that the snapshot store does not have.
	unsaved []int
	failed  map[int]error
	stuck   bool  // a branch has been given up
	unsent  error // the error of a failed save
	open    int   // branches that are not finished
}

// A differ compares states of its bot.
type differ interface {
	// differ reports whether two states have a field that differs. nil is the state before the first turn.
	differ(a, b json.RawMessage) (bool, error)
}

func newFan(decided storedFan) *fan {
	return &fan{
		decided: decided, branches: decided.Next.next().branches(),
		done: make(map[int]storedBranch), failed: make(map[int]error),
	}
}

// startable reports whether a branch that waits for others may start: no branch has been given up, and no save has
// failed.
func (fan *fan) startable() bool {
	fan.mu.Lock()
	defer fan.mu.Unlock()
	return fan.unsent == nil && !fan.stuck
}

// states returns the states of a fan-out that was found: the one that its branches were given, and what they have done.
func (fan *fan) states() (all []json.RawMessage) {
	if fan.decided.State != nil {
		all = append(all, fan.decided.State)
	}
	for _, b := range fan.done {
		if b.Change.State != nil {
			all = append(all, b.Change.State)
		}
	}
	return all
}

func branchName(i int) string { return branchPart + strconv.Itoa(i) }

// failure joins the errors of the branches, in the order of the decision.
func (fan *fan) failure() (intent string, err error) {
	var all []error
	for i, b := range fan.branches {
		err := fan.failed[i]
		switch {
		case err == nil:
			continue
		case len(all) == 0:
			intent = b.intent
		case intent != b.intent:
			intent = ""
		}
		all = append(all, fmt.Errorf("%s: %w", b, err))
	}
	return intent, joined(all)
}

// shownErrors is how many errors of branches the text of their joined error has.
const shownErrors = 10

// joined is errors.Join with a text that stays readable if a thousand branches fail.
func joined(all []error) error {
	if len(all) > shownErrors {
		all = append(all[:shownErrors:shownErrors], restError(all[shownErrors:]))
	}
	return errors.Join(all...)
}

// restError are the errors whose text is left out.
type restError []error

func (e restError) Error() string { return fmt.Sprintf("and %d branches more", len(e)) }

func (e restError) Unwrap() []error { return e }
