package orchestrator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A process decides for items under a large Limits.State, and dies. A process with a lower limit goes on with them: the
// turn leaves a small state.
func TestItemsOfALargerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, in := newWorld(), Input{Text: "ccc " + strings.Repeat("x", 8<<10), RequestID: "r"}
		var looked []string
		diesLooking(t, w, &looked, in, Options{Ledger: new(ledger.Memory), Limits: orchestrator.Limits{FanOut: 1}})
		d := lookRouted(&looked, nil)
		d.Intents["look"] = Intent{Run: func(_ context.Context, t *Turn) error {
			t.State.Said = append(t.State.Said, fmt.Sprint(t.ItemNumber, "looked"))
			return nil
		}}
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{FanOut: 1, State: 4 << 10}})
		res, err := bot.Resume(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		wantSaid(t, res.State, "2", "1looked", "2looked")
	})
}

// A session has a state above the limit of this process. A turn that fans out, and leaves less, settles.
func TestFanOutOfALargerState(t *testing.T) {
	w := newWorld()
	d := echo()
	d.Intents["shrink"] = Intent{Run: func(_ context.Context, t *Turn) error { t.State.Said = nil; return nil }}
	d.Intents["count"] = Intent{Run: func(_ context.Context, t *Turn) error { t.State.N++; return nil }}
	d.Route = func(_ context.Context, t *Turn) (Next, error) {
		if t.Index == 0 {
			return orchestrator.To("echo"), nil
		}
		return orchestrator.To("shrink", "count"), nil
	}
	execute(t, w.Start(t, d, Options{}), Input{Text: strings.Repeat("x", 8<<10)})
	bot := w.Start(t, d, Options{Limits: orchestrator.Limits{State: 4 << 10}})
	if res := execute(t, bot, Input{Text: "b"}); len(res.State.Said) > 0 || res.State.N != 1 {
		t.Errorf("%+v", res.State)
	}
}
