// Package workflowprom has the metrics of workflows for Prometheus, for a program that has no OpenTelemetry.
package workflowprom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A Collector collects what engines tell it, and what a store says of the runs in flight. It is safe for concurrent
// use.
type Collector struct {
	started, completed, retries, signals *prometheus.CounterVec
	swept                                prometheus.Counter
	runs, steps                          *prometheus.HistogramVec
	inFlight                             *prometheus.Desc
	look                                 telemetry.Look[map[string]map[workflow.Status]int]

	mu   sync.Mutex      // protects following field
	seen map[string]bool // the workflows that had runs in flight
}

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ flow.Metrics         = (*Collector)(nil)
)

// New returns a collector. Give it to flow.Options.Metrics, and to a registry. f is the store, for the gauge
// workflow_runs_in_flight: it is asked when somebody scrapes, so that the gauge is true right after a restart. Each
// process reports the same: take the maximum of them, and not the sum. If f is nil, there is no such gauge.
func New(f workflow.Front) *Collector {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: telemetry.Boundaries(),
		}, labels)
	}
	c := &Collector{
		seen:      make(map[string]bool),
		started:   counter("workflow_runs_started_total", "Runs that have begun.", "workflow"),
		completed: counter("workflow_runs_completed_total", "Runs that are over.", "workflow", "status"),
		retries: counter("workflow_step_retries_total", "Attempts that have failed, and that another one follows.",
			"workflow", "step"),
		signals: counter("workflow_signals_total", "Signals that a wait has taken.", "workflow", "event"),
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "workflow_retention_swept_total", Help: "Runs that were deleted because their retention had passed.",
		}),
		runs: histogram("workflow_run_duration_seconds", "From the start of a run to its end.", "workflow"),
		steps: histogram("workflow_step_duration_seconds", "How long the last attempt of a step took.",
			"workflow", "step"),
		inFlight: prometheus.NewDesc("workflow_runs_in_flight",
			"Runs that are not over, of all processes. Each process reports the same.", []string{"workflow"}, nil),
	}
	if f != nil {
		c.look.Read = func(ctx context.Context) (map[string]map[workflow.Status]int, error) {
			return f.Counts(ctx, workflow.Running)
		}
	}
	return c
}

// Began implements [flow.Metrics].
func (c *Collector) Began(name string) { c.started.WithLabelValues(name).Inc() }

// Ended implements [flow.Metrics].
func (c *Collector) Ended(name string, status workflow.Status, took time.Duration) {
	c.completed.WithLabelValues(name, string(status)).Inc()
	c.runs.WithLabelValues(name).Observe(took.Seconds())
}

// Stepped implements [flow.Metrics].
func (c *Collector) Stepped(name, step string, took time.Duration) {
	c.steps.WithLabelValues(name, step).Observe(took.Seconds())
}

// Retried implements [flow.Metrics].
func (c *Collector) Retried(name, step string) { c.retries.WithLabelValues(name, step).Inc() }

// Signalled implements [flow.Metrics].
func (c *Collector) Signalled(name, event string) { c.signals.WithLabelValues(name, event).Inc() }

// Swept implements [flow.Metrics].
func (c *Collector) Swept(runs int) { c.swept.Add(float64(runs)) }

// parts are the metrics that the engine's calls change.
func (c *Collector) parts() []prometheus.Collector {
	return []prometheus.Collector{c.started, c.completed, c.retries, c.signals, c.swept, c.runs, c.steps}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, p := range c.parts() {
		p.Describe(to)
	}
	to <- c.inFlight
}

// Collect implements [prometheus.Collector]. If the store cannot be read, the gauge is missing: an invalid metric would
// take the others with it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, p := range c.parts() {
		p.Collect(to)
	}
	if c.look.Read == nil {
		return
	}
	counts, err := c.look.Now(context.Background()) // a scrape has no context here
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range counts {
		c.seen[name] = true
	}
	for name := range c.seen { // also those that had runs in flight, and have none
		n := float64(counts[name][workflow.Running])
		to <- prometheus.MustNewConstMetric(c.inFlight, prometheus.GaugeValue, n, name)
	}
}
