package flow_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// What is published through the front of an engine begins there at once, with the version and the retention of the
// definition. The front has the subscriptions of its store.
func TestPublishThroughEngine(t *testing.T) {
	inBubble(t, func(w *world) {
		p := w.process()
		def := flow.New("onboard", 3, func(_ *flow.Run, in map[string]int) (int, error) {
			return in["user"], nil
		}, flow.Keep(2))
		e, _ := w.run(p, nil, def)
		s := workflow.Subscription{ID: "s", Pattern: "user.*", Workflow: "onboard"}
		if err := e.Front().(workflow.Subscriptions).Subscribe(w.Context(), s); err != nil {
			w.Fatal(err)
		}
		started, err := workflow.Publish(w.Context(), e.Front(), nil, "user.signup", "m", map[string]int{"user": 42})
		if err != nil || len(started) != 1 || !started[0].New {
			w.Fatal(started, err)
		}
		n, err := def.Handle(workflow.NewClient(e.Front()), started[0].ID).Result(w.Context())
		r, err2 := w.Get(w.Context(), started[0].ID)
		if err != nil || err2 != nil || n != 42 || r.Version != 3 || r.RetentionDays != 2 {
			w.Errorf("%d, %v, %+v, %v", n, err, r, err2)
		}
	})
}
