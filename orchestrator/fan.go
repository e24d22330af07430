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
	stored  bool            // the snapshot store has the decision

	mu   sync.Mutex // protects following fields
	done map[int]storedBranch

	// saved says which branches of done the snapshot store has.
	saved  map[int]bool
	failed map[int]error
	unsent error // the error of a failed save
	open   int   // branches that are not finished
}

func newFan(decided storedFan) *fan {
	return &fan{
		decided: decided, done: make(map[int]storedBranch), saved: make(map[int]bool), failed: make(map[int]error),
	}
}

func branchName(i int) string { return branchPart + strconv.Itoa(i) }

// failure joins the errors of the branches, in the order of the decision.
func (fan *fan) failure() (intent string, err error) {
	var all []error
	for i, name := range fan.decided.Next.Intents {
		if err := fan.failed[i]; err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
			intent = name
		}
	}
	if len(all) > 1 {
		intent = ""
	}
	return intent, errors.Join(all...)
}
