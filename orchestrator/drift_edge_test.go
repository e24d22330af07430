package orchestrator_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A deploy that lacks both intents of a run and a member of its state says both.
func TestDriftOfIntentsAndState(t *testing.T) {
	still := func(die func()) Def {
		d := steps(die)
		d.Intents["one"] = Intent{
			Run: func(context.Context, *Turn) error { return nil }, Next: orchestrator.To("two"),
		}
		return d
	}
	for name, def := range map[string]func(func()) Def{"with a state of its own": steps, "without": still} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			execute(t, w.Start(t, def(nil), Options{}), Input{Text: "a"})
			w.Crash(t, def, Input{Text: "b", RequestID: "r"})
			d := lesser()
			d.Name = "steps"
			older := bottest.StartAs(t, w, d)
			_, err := older.Resume(t.Context(), "s", nil)
			wantDrift(t, err, []string{"N"}, []string{"one", "two"})
			_, err = older.Recover(t.Context(), "s")
			wantDrift(t, err, []string{"N"}, []string{"one", "two"})
			execute(t, w.Start(t, def(nil), Options{}), Input{Text: "b", RequestID: "r"})
		})
	}
}
