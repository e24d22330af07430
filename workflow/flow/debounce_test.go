package flow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// Y99: of many starts in a row the last one counts, once it is quiet for a while. A start that comes when the run has
// begun is another run.
func TestDebounce(t *testing.T) {
	inBubble(t, func(w *world) {
		var inputs []int
		def := flow.New("index", 1, func(r *flow.Run, n int) (int, error) {
			return flow.Step(r, "build", func(context.Context) (int, error) {
				inputs = append(inputs, n)
				time.Sleep(5 * time.Second)
				return n, nil
			})
		})
		e, _ := w.run(w.store, nil, def)
		time.Sleep(time.Second)
		c := workflow.NewClient(e.Front())
		o := &workflow.StartOptions{IdempotencyKey: "docs", Delay: 2 * time.Second, Debounce: true}
		ids := make(map[string]bool)
		for i := range 40 { // a start a second, until the first run has begun, and then some
			h, err := def.Start(w.Context(), c, i, o)
			if err != nil {
				t.Fatal(err)
			}
			ids[h.ID] = true
			if pause := time.Second; i%10 == 9 {
				time.Sleep(3 * pause) // now it begins
			} else {
				time.Sleep(pause)
			}
		}
		for id := range ids {
			w.await(id)
		}
		if got := fmt.Sprint(inputs); got != "[9 19 29 39]" || len(ids) != 4 {
			t.Errorf("it is built with %s, by %d runs", got, len(ids))
		}
		now := &workflow.StartOptions{IdempotencyKey: "docs", Debounce: true}
		h, err := def.Start(w.Context(), c, 99, now)
		if err != nil || !h.New {
			t.Fatalf("a start after all is over is %+v: %v", h, err)
		}
		if n, err := h.Result(w.Context()); n != 99 || err != nil {
			t.Errorf("it returns %d, %v", n, err)
		}
	})
}
