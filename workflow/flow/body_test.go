package flow_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)


// A run that was started here knows no clock of the store yet. It wakes in time all the same.
func TestSleepUntilHere(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("until", 1, func(r *flow.Run, at time.Time) (any, error) {
			return nil, r.SleepUntil("nap", at)
		})
		e, _ := w.run(w.store, nil, def)
		time.Sleep(time.Minute)
		at := time.Now().Add(5 * time.Second)
		h, err := def.Start(w.Context(), workflow.NewClient(e.Front()), at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(w.Context()); err != nil {
			t.Error(err)
		}
		if late := time.Since(at); late < 0 || late > 2*time.Second {
			t.Errorf("it went on %v after its deadline", late)
		}
	})
}
