package orchestrator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A state of some MiB may be fanned out: each branch saves only its changes.
func TestLargeStateFansOut(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	backends(t, func(t *testing.T, w world) { fanOutLarge(t, w, 2<<20, 1<<10, 10) })
}

// A state and an input need not share the room of one document.
func TestStateBesideInput(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	fanOutLarge(t, newWorld(), 9<<20, 9<<20, 2)
}

// fanOutLarge fans out a turn with a state and an input of so many bytes.
func fanOutLarge(t *testing.T, w world, state, input, branches int) {
	d := Def{Name: "large", Iterate: true, Intents: make(Intents), First: "grow"}
	var names []string
	for i := range branches {
		name := fmt.Sprint("branch ", i)
		names = append(names, name)
		d.Intents[name] = Intent{Next: orchestrator.End, Run: func(context.Context, *Turn) error { return nil }}
	}
	d.Intents["grow"] = Intent{Next: orchestrator.To(names...), Run: func(_ context.Context, t *Turn) error {
		t.State.A = strings.Repeat("x", state)
		return nil
	}}
	res := execute(t, w.Start(t, d, Options{Limits: orchestrator.Limits{Input: 10 << 20, State: 10 << 20}}),
		Input{Text: strings.Repeat("y", input)})
	if len(res.State.A) != state || len(res.Input.Text) != input {
		t.Errorf("%d bytes of state, %d of input", len(res.State.A), len(res.Input.Text))
	}
}
