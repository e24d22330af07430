package workflowprom_test

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
	"github.com/holdfast-go/holdfast/workflow/workflowprom"
)

// The collector hears the engine, and asks the store for what is in flight when somebody scrapes.
func Example() {
	hello := flow.New("hello", 1, func(*flow.Run, string) (string, error) { return "world", nil })
	store := new(workflow.Memory) // or postgres.New(pool, nil).Workflows()
	metrics := workflowprom.New(store)
	prometheus.MustRegister(metrics)
	engine := flow.NewEngine(store, &flow.Options{Metrics: metrics}, hello)
	_ = engine // go engine.Run(ctx)
	http.Handle("GET /metrics", promhttp.Handler())
}
