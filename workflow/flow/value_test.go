package flow_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

type text = json.RawMessage

// A value is the same in each pass, on each store: PostgreSQL has no zero with a sign, so no verb returns one.
func TestZeros(t *testing.T) {
	inBubble(t, func(w *world) {
		const in = `{"-0":["\"-0",-0.5,-0,-0.0,-0e1,-10,1e-0,2E-05,"a-0\\"]}`
		const want = `{"-0":["\"-0",-0.5,0,0.0,0e1,-10,1e-0,2E-05,"a-0\\"]}`
		var inputs []string
		e, _ := w.run(w.store, nil, flow.New("zeros", 1, func(r *flow.Run, in text) (text, error) {
			inputs = append(inputs, string(in))
			minus := math.Copysign(0, -1)
			zero, err := flow.Step(r, "zero", func(context.Context) (float64, error) { return minus, nil })
			if err != nil || math.Signbit(zero) {
				t.Errorf("%v, %v", zero, err)
			}
			out, err := flow.Step(r, "text", func(context.Context) (text, error) { return in, nil })
			if err != nil || string(out) != want {
				t.Errorf("%s, %v, want %s", out, err, want)
			}
			return out, r.Sleep("nap", time.Minute)
		}))
		id, err := workflow.NewClient(e.Front()).Start(w.Context(), "zeros", json.RawMessage(in), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.completed(id.ID, want)
		if len(inputs) != 2 || inputs[0] != want || inputs[1] != want {
			t.Errorf("inputs %s", inputs)
		}
	})
}

// BenchmarkZeros is what it costs a value to have no zero with a sign.
func BenchmarkZeros(b *testing.B) {
	value := make([]map[string]any, 20)
	for i := range value {
		value[i] = map[string]any{"id": i, "at": "2025-01-02T03:04:05Z", "cents": -100}
	}
	doc, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func(){
		"marshal":  func() { _, _ = json.Marshal(value) },
		"unsigned": func() { flow.Unsigned(doc) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
