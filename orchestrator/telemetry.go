package orchestrator

import (
	"context"
	"reflect"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/holdfast-go/holdfast/orchestrator"

// The attributes of spans and metrics. None holds state, input or history.
const (
	attrOrchestrator = attribute.Key("holdfast.orchestrator")
	attrSession      = attribute.Key("holdfast.session")
	attrRun          = attribute.Key("holdfast.run")
	attrTurn         = attribute.Key("holdfast.turn")
	attrResumed      = attribute.Key("holdfast.resumed")
	attrIteration    = attribute.Key("holdfast.iteration")
	attrIntent       = attribute.Key("holdfast.intent")
	attrItem         = attribute.Key("holdfast.item")
	attrAttempt      = attribute.Key("holdfast.attempt")
	attrOutcome      = attribute.Key("holdfast.outcome")
)

// wasSet reports whether a provider of OpenTelemetry was set up by the program. The other providers do nothing with
// what they get, but allocate for it.
func wasSet(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "go.opentelemetry.io/otel/internal/global", "go.opentelemetry.io/otel/trace/noop",
		"go.opentelemetry.io/otel/metric/noop":
		return false
	}
	return true
}

// silence lists the provider types that did nothing when the bot was made. A type is nil if that provider was set up
// even then. A provider that is still of a listed type need not be looked at closely.
type silence struct{ tracer, meter reflect.Type }

func listen() (s silence) {
	if t := reflect.TypeOf(otel.GetTracerProvider()); !wasSet(t) {
		s.tracer = t
	}
	if t := reflect.TypeOf(otel.GetMeterProvider()); !wasSet(t) {
		s.meter = t
	}
	return s
}

// traced returns the provider of tracers; nil if none was set up.
func (s silence) traced() trace.TracerProvider {
	p := otel.GetTracerProvider()
	if t := reflect.TypeOf(p); t == s.tracer || !wasSet(t) {
		return nil
	}
	return p
}

// A tracer makes the spans of one turn; the zero tracer makes none.
type tracer struct {
	t    trace.Tracer
	turn trace.Span
}

// begin opens the span of the turn, once. It returns ctx with the span.
func (t *tracer) begin(ctx context.Context, p trace.TracerProvider) context.Context {
	if t.turn == nil {
		t.t = p.Tracer(scope)
		ctx, t.turn = t.t.Start(ctx, "orchestrator.turn")
	}
	return ctx
}

// link links the span of the turn to the first attempt at the run, if that was traced.
func (t *tracer) link(traceparent string) {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	first := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if first.IsValid() {
		t.turn.AddLink(trace.Link{SpanContext: first})
	}
}

// traceparent returns what a later attempt needs for a link to the span of ctx.
func traceparent(ctx context.Context) string {
	carrier := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// iteration opens a span within the span of the turn. The span is nil if the turn is not traced.
func (t *tracer) iteration(ctx context.Context, n int) (context.Context, trace.Span) {
	if t.t == nil {
		return ctx, nil
	}
	return t.t.Start(ctx, "orchestrator.iteration", trace.WithAttributes(attrIteration.Int(n)))
}

// intent opens a span within the span of an iteration. The span is nil if the turn is not traced.
func (t *tracer) intent(ctx context.Context, b branch, attempt int) (context.Context, trace.Span) {
	if t.t == nil {
		return ctx, nil
	}
	attrs := []attribute.KeyValue{attrIntent.String(b.intent), attrAttempt.Int(attempt)}
	if b.number > 0 {
		attrs = append(attrs, attrItem.Int(b.number))
	}
	return t.t.Start(ctx, "orchestrator.intent", trace.WithAttributes(attrs...))
}

// end closes the span of the turn.
func (t *tracer) end(ev Event) {
	if t.turn == nil {
		return
	}
	t.turn.SetAttributes(attrOutcome.String(ev.Kind.outcome()))
	endSpan(t.turn, ev.Err)
	*t = tracer{}
}

// endSpan ends a span and says whether its work failed. It does not say why: an error may hold what the user said.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// meters are the metrics of an orchestrator. An up-down counter may go up in one process and down in another: only the
// sum over all processes has a meaning.
type meters struct {
	silent   silence
	attrs    metric.MeasurementOption
	name     attribute.KeyValue
	turns    metric.Int64Counter
	duration metric.Float64Histogram
	lockWait metric.Float64Histogram
	runs     metric.Int64UpDownCounter
	owed     metric.Int64UpDownCounter
	drops    metric.Int64Counter
	stuck    metric.Int64UpDownCounter
}

func newMeters(name string) (m meters, err error) {
	meter := otel.Meter(scope)
	m.silent = listen()
	m.name = attrOrchestrator.String(name)
	m.attrs = metric.WithAttributeSet(attribute.NewSet(m.name))
	errs := make([]error, 7)
	m.turns, errs[0] = meter.Int64Counter("holdfast.turns", metric.WithUnit("{turn}"),
		metric.WithDescription("Turns that have ended, by outcome; replayed: settled before."))
	m.duration, errs[1] = meter.Float64Histogram("holdfast.turn.duration", metric.WithUnit("s"),
		metric.WithDescription("From when a turn has begun, or is taken up, to its outcome."))
	m.lockWait, errs[2] = meter.Float64Histogram("holdfast.lock.wait", metric.WithUnit("s"),
		metric.WithDescription("Until a session was claimed."))
	m.runs, errs[3] = meter.Int64UpDownCounter("holdfast.runs", metric.WithUnit("{run}"),
		metric.WithDescription(
			"Runs in flight: begun and neither settled nor ended. The sum over all processes counts."))
	m.owed, errs[4] = meter.Int64UpDownCounter("holdfast.deliveries.owed", metric.WithUnit("{turn}"),
		metric.WithDescription("Turns settled and not yet delivered. The sum over all processes counts."))
	m.drops, errs[5] = meter.Int64Counter("holdfast.events.dropped", metric.WithUnit("{event}"),
		metric.WithDescription("Events that a handler or the reader of a Stream was too slow for."))
	m.stuck, errs[6] = meter.Int64UpDownCounter("holdfast.functions.stuck", metric.WithUnit("{function}"),
		metric.WithDescription("Functions of the bot in this process that go on after they were given up."))
	for _, e := range errs {
		if e != nil {
			err = e
		}
	}
	return m, err
}

// on reports whether a meter provider was set up.
func (m *meters) on() bool {
	t := reflect.TypeOf(otel.GetMeterProvider())
	return t != m.silent.meter && wasSet(t)
}

// ended counts a turn, or a call that never became one.
func (m *meters) ended(ev Event) {
	outcome := ev.Kind.outcome()
	if outcome == "" || !m.on() {
		return
	}
	if ev.replayed {
		outcome = "replayed"
	}
	o := metric.WithAttributes(m.name, attrOutcome.String(outcome))
	m.turns.Add(context.Background(), 1, o)
	if ev.Kind != TurnRefused && !ev.replayed {
		m.duration.Record(context.Background(), ev.Took.Seconds(), o)
	}
}

// waited notes the time from start until the session was owned.
func (m *meters) waited(start time.Time) {
	if m.on() {
		m.lockWait.Record(context.Background(), time.Since(start).Seconds(), m.attrs)
	}
}

func (m *meters) inFlight(n int64) {
	if m.on() {
		m.runs.Add(context.Background(), n, m.attrs)
	}
}

func (m *meters) owes(n int64) {
	if m.on() {
		m.owed.Add(context.Background(), n, m.attrs)
	}
}

func (m *meters) drop(n int) {
	if n > 0 && m.on() {
		m.drops.Add(context.Background(), int64(n), m.attrs)
	}
}

func (m *meters) given(n int64) {
	if m.on() {
		m.stuck.Add(context.Background(), n, m.attrs)
	}
}
