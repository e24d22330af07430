package flow

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/workflow"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/holdfast-go/holdfast/workflow/flow"

// The attributes of spans and metrics. None holds an input, an output or the text of an error.
const (
	attrName    = attribute.Key("workflow.name")
	attrVersion = attribute.Key("workflow.version")
	attrRun     = attribute.Key("run_id")
	attrStatus  = attribute.Key("status")
	attrStep    = attribute.Key("step.name")
	attrKind    = attribute.Key("step.kind")
	attrAttempt = attribute.Key("step.attempt")
	attrEvent   = attribute.Key("event")
	labelFlow   = attribute.Key("workflow")
	labelStep   = attribute.Key("step")
)

// The statuses of a span besides those of runs.
const (
	statusHeld = "held"
	statusLost = "lost" // the run is not of this process any more
)

// RunTrace returns the trace of a run, as the header traceparent of W3C: 00, the id of the trace, the id of its root,
// and 01. The ids are the first 16 bytes and the next 8 of the SHA-256 of the run's id. So each process gets the same
// ids at any time, and nothing stores them. The root is never exported. A program may add spans of its own below it.
func RunTrace(run string) (traceparent string) {
	carrier := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(trace.ContextWithRemoteSpanContext(context.Background(), root(run)), carrier)
	return carrier["traceparent"]
}

func root(run string) trace.SpanContext {
	sum := sha256.Sum256([]byte(run))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled,
		Remote: true,
	})
}

// Metrics hear what an engine counts, besides OpenTelemetry. Their methods are called concurrently, and must not wait.
// Package workflowprom has some for Prometheus. Names of steps come without those of their branches.
type Metrics interface {
	Began(workflow string)                                             // a run that no process had before
	Ended(workflow string, status workflow.Status, took time.Duration) // since its start
	Stepped(workflow, step string, took time.Duration)                 // the last attempt of a step
	Retried(workflow, step string)                                     // an attempt has failed, and another one follows
	Signalled(workflow, event string)                                  // a wait has taken a signal
	Swept(runs int)
}

// A telemeter tells of the runs of an engine.
type telemeter struct {
	telemetry.Silence
	hears Metrics // of the options; may be nil
	otel  *meters
	log   *slog.Logger
}

func newTelemeter(o *Options) (t telemeter) {
	t.Silence, t.hears, t.log = telemetry.Listen(scope), o.Metrics, o.Logger
	var err error
	if t.otel, err = newMeters(t.Meter()); err != nil {
		o.Logger.Warn("metrics incomplete", "err", logtext.Of(err))
	}
	return t
}

// each calls f for each of those who listen.
func (t *telemeter) each(f func(Metrics)) {
	if t.hears != nil {
		if err := guard(func() error { f(t.hears); return nil }); err != nil { // a run does not end because of it
			t.log.Error("metrics panicked", "err", textOf(err))
		}
	}
	if t.Metered() {
		f(t.otel)
	}
}

// counts reports whether metrics are heard.
func (t *telemeter) counts() bool { return t.hears != nil || t.Metered() }

// meters are Metrics for OpenTelemetry.
type meters struct {
	started, completed, retries, signals, swept metric.Int64Counter
	runs, steps                                 metric.Float64Histogram
}

func newMeters(meter metric.Meter) (*meters, error) {
	var m meters
	errs := make([]error, 7)
	m.started, errs[0] = meter.Int64Counter("workflow.runs.started",
		metric.WithDescription("Runs that have begun."))
	m.completed, errs[1] = meter.Int64Counter("workflow.runs.completed",
		metric.WithDescription("Runs that are over, by status."))
	m.retries, errs[2] = meter.Int64Counter("workflow.step.retries",
		metric.WithDescription("Attempts of steps that have failed, and that another one follows."))
	m.signals, errs[3] = meter.Int64Counter("workflow.signals",
		metric.WithDescription("Signals that a wait has taken."))
	m.swept, errs[4] = meter.Int64Counter("workflow.retention.swept",
		metric.WithDescription("Runs that were deleted because their retention had passed."))
	m.runs, errs[5] = meter.Float64Histogram("workflow.run.duration", metric.WithUnit("s"), telemetry.Seconds(),
		metric.WithDescription("From the start of a run to its end."))
	m.steps, errs[6] = meter.Float64Histogram("workflow.step.duration", metric.WithUnit("s"), telemetry.Seconds(),
		metric.WithDescription("How long the last attempt of a step took."))
	return &m, errors.Join(errs...)
}

// Began implements [Metrics].
func (m *meters) Began(workflow string) {
	m.started.Add(context.Background(), 1, metric.WithAttributes(labelFlow.String(workflow)))
}

// Ended implements [Metrics].
func (m *meters) Ended(workflow string, status workflow.Status, took time.Duration) {
	name := labelFlow.String(workflow)
	m.completed.Add(context.Background(), 1, metric.WithAttributes(name, attrStatus.String(string(status))))
	m.runs.Record(context.Background(), took.Seconds(), metric.WithAttributes(name))
}

// Stepped implements [Metrics].
func (m *meters) Stepped(workflow, step string, took time.Duration) {
	m.steps.Record(context.Background(), took.Seconds(),
		metric.WithAttributes(labelFlow.String(workflow), labelStep.String(step)))
}

// Retried implements [Metrics].
func (m *meters) Retried(workflow, step string) {
	m.retries.Add(context.Background(), 1,
		metric.WithAttributes(labelFlow.String(workflow), labelStep.String(step)))
}

// Signalled implements [Metrics].
func (m *meters) Signalled(workflow, event string) {
	m.signals.Add(context.Background(), 1,
		metric.WithAttributes(labelFlow.String(workflow), attrEvent.String(event)))
}

// Swept implements [Metrics].
func (m *meters) Swept(runs int) { m.swept.Add(context.Background(), int64(runs)) }

// began tells that a run has begun, if no process had it before.
func (x *stay) began() {
	if x.fence.Epoch == 1 {
		x.engine.telemeter.each(func(m Metrics) { m.Began(x.run.Workflow) })
	}
}

// ended tells that a run is over.
func (x *stay) ended(status workflow.Status) {
	took := time.Since(x.since) // if it was started here, it has no Started
	if now := x.now(); !now.IsZero() && !x.run.Started.IsZero() {
		took = now.Sub(x.run.Started)
	}
	x.engine.telemeter.each(func(m Metrics) { m.Ended(x.run.Workflow, status, took) })
}

// notes tells of a row that the journal gets, which no pass before had.
func (x *stay) notes(st *workflow.Step) {
	t := &x.engine.telemeter
	over := st.Outcome != workflow.Open && st.Outcome != workflow.Retrying
	if st.Kind != workflow.KindStep {
		if over && t.Traced() { // what it waited for is a gap
			_, span := x.span(x.ctx, st)
			span.End()
		}
		return
	}
	name := st.Name[strings.LastIndexByte(st.Name, '/')+1:]
	if over {
		t.each(func(m Metrics) { m.Stepped(x.run.Workflow, name, st.Took) })
	} else {
		t.each(func(m Metrics) { m.Retried(x.run.Workflow, name) })
	}
}

// signalled tells that a wait has taken a signal.
func (x *stay) signalled(event string) {
	t := &x.engine.telemeter
	t.each(func(m Metrics) { m.Signalled(x.run.Workflow, event) })
	if tracer := t.Tracer(); tracer != nil {
		_, span := tracer.Start(x.ctx, "workflow.signal", trace.WithAttributes(
			attrName.String(x.run.Workflow), attrRun.String(x.run.ID), attrEvent.String(event)))
		span.End()
	}
}

// trace opens the span of the stay, in the trace of its run. It is nil if nothing listens.
func (x *stay) trace() trace.Span {
	t := x.engine.telemeter.Tracer()
	if t == nil {
		return nil
	}
	var span trace.Span
	x.ctx, span = t.Start(trace.ContextWithRemoteSpanContext(x.ctx, root(x.run.ID)), "workflow.run",
		trace.WithAttributes(attrName.String(x.run.Workflow), attrVersion.Int(x.run.Version), attrRun.String(x.run.ID)))
	return span
}

// endTrace ends the span of a stay.
func (x *stay) endTrace(span trace.Span) {
	if span == nil {
		return
	}
	span.SetAttributes(attrStatus.String(x.status))
	if x.status == string(workflow.Failed) || x.status == statusHeld {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// span opens the span of a verb.
func (x *stay) span(ctx context.Context, st *workflow.Step) (context.Context, trace.Span) {
	t := x.engine.telemeter.Tracer()
	if t == nil {
		return ctx, nil
	}
	return t.Start(ctx, "workflow.step", trace.WithAttributes(
		attrName.String(x.run.Workflow), attrRun.String(x.run.ID), attrStep.String(st.Name),
		attrKind.String(string(st.Kind)), attrAttempt.Int(max(st.Attempts, 1))))
}

// endStep ends the span of an attempt. It says that the attempt has failed, and not why: the text of an error may hold
// what is private.
func endStep(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// observe registers the gauge of the runs in flight, with the provider of meters that is set now.
func (e *Engine) observe() (stop func()) {
	if !e.telemeter.Metered() {
		return func() {}
	}
	look := telemetry.Look[map[string]map[workflow.Status]int]{
		Read: func(ctx context.Context) (map[string]map[workflow.Status]int, error) {
			return e.store.Counts(ctx, workflow.Running)
		},
	}
	meter := e.telemeter.Meter()
	gauge, err := meter.Int64ObservableGauge("workflow.runs.in_flight", metric.WithDescription(
		"Runs that are not over, of all processes. Each process reports the same: take the maximum."))
	var registered metric.Registration
	if err == nil {
		registered, err = meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
			counts, err := look.Now(ctx)
			if err != nil {
				return err
			}
			for _, d := range e.names { // also those that have none
				if counts[d.Workflow] == nil {
					to.ObserveInt64(gauge, 0, metric.WithAttributes(labelFlow.String(d.Workflow)))
				}
			}
			for name, of := range counts {
				to.ObserveInt64(gauge, int64(of[workflow.Running]), metric.WithAttributes(labelFlow.String(name)))
			}
			return nil
		}, gauge)
	}
	if err != nil {
		e.options.Logger.Warn("metrics incomplete", "err", logtext.Of(err))
		return func() {}
	}
	return func() { _ = registered.Unregister() } // there is nothing to be done about it
}
