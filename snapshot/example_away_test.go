package snapshot_test

import (
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/snapshot"
)

// A loop over runs goes on after a run that cannot be reached now.
func ExampleAwayError() {
	var runs iter.Seq2[snapshot.Run, error] = func(yield func(snapshot.Run, error) bool) {
		far := snapshot.Key{Orchestrator: "bot", Session: "far"}
		_ = yield(snapshot.Run{Key: far}, &snapshot.AwayError{Key: far, Err: errors.New("node 10.0.0.7: no answer")}) &&
			yield(snapshot.Run{Key: snapshot.Key{Orchestrator: "bot", Session: "near"}, Status: snapshot.Running}, nil)
	}
	for r, err := range runs {
		if away, ok := errors.AsType[*snapshot.AwayError](err); ok {
			fmt.Println(r.Session, "is left out:", away.Err)
			continue
		}
		fmt.Println(r.Session, "is", r.Status)
	}
	// Output:
	// far is left out: node 10.0.0.7: no answer
	// near is running
}
