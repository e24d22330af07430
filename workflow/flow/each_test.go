package flow_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// BenchmarkEach is a run with many branches. The time of one branch does not grow with their number.
func BenchmarkEach(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			each := flow.New("each", 1, func(r *flow.Run, _ any) (int, error) {
				all, err := flow.Each(r, "b", make([]int, n), 8, func(*flow.Run, int) (int, error) { return 1, nil })
				return len(all), err
			})
			e := flow.NewEngine(new(workflow.Memory), &flow.Options{Logger: slog.New(slog.DiscardHandler)}, each)
			go func() { _ = e.Run(b.Context()) }()
			c := workflow.NewClient(e.Front())
			for b.Loop() {
				h, err := each.Start(b.Context(), c, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := h.Result(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/branch")
		})
	}
}
