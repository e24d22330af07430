package orchestrator_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A run that is abandoned first leaves the newest state as it was. So Begin, which has run on that state, does not run
// again.
func TestBeginRunsOnceOnAState(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	begun := 0
	d := steps(nil)
	d.Begin = func(context.Context, *Turn) error { begun++; return nil }
	bot := w.Start(t, d, Options{OnInterrupted: orchestrator.AbandonFirst})
	res := execute(t, bot, Input{Text: "b"})
	wantSaid(t, res.State, "b one", "b two", "b three")
	if begun != 1 {
		t.Errorf("Begin ran %d times", begun)
	}
}
