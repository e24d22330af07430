package orchestrator_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// The span of a turn that gives way is ended too.
func TestTraceOfRefused(t *testing.T) {
	for name, o := range map[string]Options{"reject": {OnInterrupted: orchestrator.Reject}, "own": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
			bot := w.Start(t, steps(nil), o)
			spans := traced(t)
			in := Input{Text: "b"}
			if name == "own" {
				in = Input{Text: "a", RequestID: "r"}
			}
			_, _ = bot.Execute(t.Context(), "s", in, nil)
			if begun, ended := len(spans.Started()), len(spans.Ended()); begun != ended {
				t.Errorf("%d spans begun, %d ended", begun, ended)
			}
		})
	}
}
