package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
	"github.com/holdfast-go/holdfast/workflow/workflowprom"
)

// errBusy is what a step returns in its first attempt.
var errBusy = errors.New("busy")

// seen has a verb of each kind. It says that it fails if it is told to.
var seen = flow.New("seen", 3, func(r *flow.Run, fails bool) (string, error) {
	v, err := flow.Step(r, "ask", func(ctx context.Context) (string, error) {
		if flow.Attempt(ctx) == 1 {
			return "", errBusy
		}
		return "answer", nil
	})
	if err != nil || fails {
		return v, errors.Join(err, errBusy)
	}
	if err := r.Sleep("night", time.Hour); err != nil {
		return "", err
	}
	if _, err := flow.Wait[any](r, "go"); err != nil {
		return "", err
	}
	_, err = flow.Go(r, "branch", func(r *flow.Run) (any, error) {
		return nil, flow.Do(r, "fetch", func(context.Context) error { return nil })
	}).Join()
	return v, err
})

// family starts a child that waits for ever.
var family = flow.New("family", 1, func(r *flow.Run, _ any) (string, error) {
	return flow.Child(r, "child", seen, false)
})

// A cancel counts for each run that it has ended.
func TestMetricsOfFamilies(t *testing.T) {
	registry := prometheus.NewRegistry()
	synctest.Test(t, func(t *testing.T) {
		store := new(workflow.Memory)
		metrics := workflowprom.New(store)
		registry.MustRegister(metrics)
		ctx, stop := context.WithCancel(t.Context())
		o := &flow.Options{Logger: slog.New(slog.DiscardHandler), Metrics: metrics}
		e := flow.NewEngine(store, o, seen, family)
		over := make(chan error)
		go func() { over <- e.Run(ctx) }()
		synctest.Wait()
		c := workflow.NewClient(e.Front())
		h, err := family.Start(ctx, c, nil, nil)
		if err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if _, err := c.Cancel(ctx, h.ID); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	got := scraped(t, registry)
	for _, want := range []string{
		`workflow_runs_completed_total{status="cancelled",workflow="family"} 1`,
		`workflow_runs_completed_total{status="cancelled",workflow="seen"} 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// played plays runs in a bubble, in three processes one after the other. The first run goes through all of them. during
// is called while it waits, and the others are over.
func played(t *testing.T, metrics func(*workflow.Memory) flow.Metrics, during func()) (run string) {
	synctest.Test(t, func(t *testing.T) {
		store := new(workflow.Memory)
		o := &flow.Options{Logger: slog.New(slog.DiscardHandler), Metrics: metrics(store)}
		process := func(f func(c *workflow.Client)) {
			ctx, stop := context.WithCancel(t.Context())
			e := flow.NewEngine(store, o, seen)
			over := make(chan error)
			go func() { over <- e.Run(ctx) }()
			synctest.Wait()
			f(workflow.NewClient(e.Front()))
			synctest.Wait()
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		start := func(c *workflow.Client, fails bool, key string) string {
			h, err := seen.Start(t.Context(), c, fails, &workflow.StartOptions{IdempotencyKey: key, RetentionDays: 1})
			if err != nil {
				t.Error(err)
			}
			return h.ID
		}
		process(func(c *workflow.Client) {
			run = start(c, false, "once")
			start(c, false, "once")
			time.Sleep(time.Minute)
		})
		process(func(c *workflow.Client) {
			time.Sleep(2 * time.Hour) // it sleeps no more, and waits
		})
		process(func(c *workflow.Client) {
			start(c, true, "")
			cancelled := start(c, false, "")
			time.Sleep(time.Minute)
			for range 2 {
				if _, err := c.Cancel(t.Context(), cancelled); err != nil {
					t.Error(err)
				}
			}
			during()
			if _, err := c.Signal(t.Context(), run, "go", nil, "first"); err != nil {
				t.Error(err)
			}
			time.Sleep(48 * time.Hour)
		})
	})
	return run
}

// A run is one trace over all its processes. Its span is of the time in which a process has it.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(tracenoop.NewTracerProvider()) })
	run := played(t, func(*workflow.Memory) flow.Metrics { return nil }, func() {})
	var got []string
	for _, s := range spans.Ended() {
		var attrs []string
		for _, a := range s.Attributes() {
			attrs = append(attrs, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
		}
		text := s.Name() + " " + strings.Join(attrs, " ")
		if s.Parent().IsRemote() {
			ids := fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.Parent().SpanID())
			if strings.Contains(text, run) != (ids == flow.RunTrace(run)) {
				t.Errorf("%s is in %s", text, ids)
			}
		}
		if strings.Contains(text, run) {
			got = append(got, strings.Replace(text, run, "R", 1))
			if !strings.Contains(flow.RunTrace(run), s.SpanContext().TraceID().String()) {
				t.Errorf("%s is in the trace %s", text, s.SpanContext().TraceID())
			}
		}
	}
	want := []string{
		"workflow.step workflow.name=seen run_id=R step.name=ask step.kind=run step.attempt=1",
		"workflow.run workflow.name=seen workflow.version=3 run_id=R status=running",
		"workflow.step workflow.name=seen run_id=R step.name=ask step.kind=run step.attempt=2",
		"workflow.run workflow.name=seen workflow.version=3 run_id=R status=running",
		"workflow.step workflow.name=seen run_id=R step.name=night step.kind=sleep step.attempt=1",
		"workflow.run workflow.name=seen workflow.version=3 run_id=R status=running",
		"workflow.step workflow.name=seen run_id=R step.name=go step.kind=wait step.attempt=1",
		"workflow.signal workflow.name=seen run_id=R event=go",
		"workflow.step workflow.name=seen run_id=R step.name=branch/fetch step.kind=run step.attempt=1",
		"workflow.run workflow.name=seen workflow.version=3 run_id=R status=completed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// scraped returns what somebody sees who scrapes, but for the buckets and sums of histograms.
func scraped(t *testing.T, from prometheus.Gatherer) []string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	promhttp.HandlerFor(from, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		part := strings.Contains(line, "_bucket{") || strings.Contains(line, "_sum{")
		if strings.HasPrefix(line, "workflow_") && !part {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// The metrics are the same in both ways.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(metricnoop.NewMeterProvider()) })
	own := prometheus.NewRegistry()
	var during, ownDuring []string
	played(t, func(m *workflow.Memory) flow.Metrics {
		c := workflowprom.New(m)
		own.MustRegister(c)
		return c
	}, func() { during, ownDuring = scraped(t, registry), scraped(t, own) })
	after, ownAfter := scraped(t, registry), scraped(t, own)
	wantScraped(t, "while a run waits", during, ownDuring, []string{
		`workflow_retention_swept_total 0`,
		`workflow_run_duration_seconds_count{workflow="seen"} 2`,
		`workflow_runs_completed_total{status="cancelled",workflow="seen"} 1`,
		`workflow_runs_completed_total{status="failed",workflow="seen"} 1`,
		`workflow_runs_in_flight{workflow="seen"} 1`, // in a process that has never had it
		`workflow_runs_started_total{workflow="seen"} 3`,
		`workflow_step_duration_seconds_count{step="ask",workflow="seen"} 3`,
		`workflow_step_retries_total{step="ask",workflow="seen"} 3`,
	})
	wantScraped(t, "in the end", after, ownAfter, []string{
		`workflow_retention_swept_total 3`,
		`workflow_run_duration_seconds_count{workflow="seen"} 3`,
		`workflow_runs_completed_total{status="cancelled",workflow="seen"} 1`,
		`workflow_runs_completed_total{status="completed",workflow="seen"} 1`,
		`workflow_runs_completed_total{status="failed",workflow="seen"} 1`,
		`workflow_runs_in_flight{workflow="seen"} 0`,
		`workflow_runs_started_total{workflow="seen"} 3`,
		`workflow_signals_total{event="go",workflow="seen"} 1`,
		`workflow_step_duration_seconds_count{step="ask",workflow="seen"} 3`,
		`workflow_step_duration_seconds_count{step="fetch",workflow="seen"} 1`,
		`workflow_step_retries_total{step="ask",workflow="seen"} 3`,
	})
}

// wantScraped compares what both ways have shown. OpenTelemetry has no counter before its first value, and its gauge
// ends with the engine.
func wantScraped(t *testing.T, when string, other, own, want []string) {
	t.Helper()
	if !slices.Equal(own, want) {
		t.Errorf("%s, the collector has\n%s\nwant\n%s", when, strings.Join(own, "\n"), strings.Join(want, "\n"))
	}
	want = slices.DeleteFunc(want, func(line string) bool { return strings.HasSuffix(line, " 0") })
	if !slices.Equal(other, want) {
		t.Errorf("%s, OpenTelemetry has\n%s\nwant\n%s", when, strings.Join(other, "\n"), strings.Join(want, "\n"))
	}
}
