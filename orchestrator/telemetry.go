package orchestrator

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/internal/telemetry"
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
	attrStatus       = attribute.Key("holdfast.status")
	attrInputKind    = attribute.Key("holdfast.input.kind")

	// These names are of OpenTelemetry's semantic conventions: general, and for generative AI.
	attrAgent        = attribute.Key("gen_ai.agent.name")
	attrConversation = attribute.Key("gen_ai.conversation.id")
	attrModality     = attribute.Key("gen_ai.token.modality")
	attrTokenType    = attribute.Key("gen_ai.token.type")

	// attrCost has no name there.
	attrCost = attribute.Key("holdfast.usage.cost")
)

// silence tells whether a program listens. It also makes the spans of calls to stores.
type silence struct{ telemetry.Silence }

// A tracer makes the spans of one turn; the zero tracer makes none.
type tracer struct {
	t    trace.Tracer
	turn trace.Span
	run  string

	// inSession is the span of the run in the trace of its session; nil if there is none.
	inSession trace.Span
}

// begin opens the span of a turn of the bot, once. It returns ctx with the span.
func (t *tracer) begin(ctx context.Context, by trace.Tracer, m *meters, bot string) context.Context {
	if t.turn == nil {
		t.t = by
		name := "orchestrator.turn"
		if m.latest {
			name = invoke + " " + bot
		}
		ctx, t.turn = t.t.Start(ctx, name,
			trace.WithAttributes(telemetry.Operation.String(invoke), attrAgent.String(bot)))
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
	return t.t.Start(ctx, "orchestrator.iteration", trace.WithAttributes(attrRun.String(t.run), attrIteration.Int(n)))
}

// intent opens a span within the span of an iteration. The span is nil if the turn is not traced.
func (t *tracer) intent(ctx context.Context, b branch, attempt int) (context.Context, trace.Span) {
	if t.t == nil {
		return ctx, nil
	}
	attrs := []attribute.KeyValue{attrRun.String(t.run), attrIntent.String(b.intent), attrAttempt.Int(attempt)}
	if b.number > 0 {
		attrs = append(attrs, attrItem.Int(b.number))
	}
	return t.t.Start(ctx, "orchestrator.intent", trace.WithAttributes(attrs...))
}

// end closes the span of the turn. The provider is whoever has the model that has answered first.
func (t *tracer) end(ev Event, provider string) {
	if t.turn == nil {
		return
	}
	if provider != "" {
		t.turn.SetAttributes(telemetry.Provider.String(provider))
	}
	t.turn.SetAttributes(attrOutcome.String(ev.Kind.outcome()))
	if ev.Usage != (Usage{}) {
		t.turn.SetAttributes(telemetry.InputTokens.Int(ev.Usage.Input), telemetry.OutputTokens.Int(ev.Usage.Output))
	}
	if ev.Usage.Cost != 0 {
		t.turn.SetAttributes(attrCost.Float64(ev.Usage.Cost))
	}
	endSpan(t.turn, ev.Err)
	if t.inSession != nil {
		t.inSession.SetAttributes(attrOutcome.String(ev.Kind.outcome()))
		endSpan(t.inSession, ev.Err)
	}
	*t = tracer{}
}

// endSpan ends a span and says whether its work failed, and by which type of error. It does not say more: the text of
// an error may hold what the user said.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(telemetry.ErrorType.String(errorType(err)))
	}
	span.End()
}

// invoke is the operation of a turn. What AddUsage tells of is telemetry.Chat.
const invoke = "invoke_agent"

// replayed is the outcome of a turn that had settled before.
const replayed = "replayed"

// outcomes are the outcomes that metrics tell apart.
var outcomes = [...]string{
	TurnSettled.outcome(), TurnSuspended.outcome(), TurnFailed.outcome(), TurnLeft.outcome(), TurnRefused.outcome(),
	replayed,
}

// meters are the metrics of an orchestrator. An up-down counter may go up in one process and down in another: only the
// sum over all processes has a meaning.
type meters struct {
	silent   silence
	attrs    metric.MeasurementOption
	name     attribute.KeyValue
	turns    metric.Int64Counter
	errors   metric.Int64Counter
	duration metric.Float64Histogram
	lockWait metric.Float64Histogram
	cost     metric.Float64Counter
	drops    metric.Int64Counter
	stuck    metric.Int64UpDownCounter

	// latest says that spans and metrics have the names of the newest conventions. Then there is no tokens, and input
	// and output are there in its place.
	latest        bool
	tokens        metric.Int64Histogram
	input, output metric.Int64Counter
}

func newMeters(name string) (m meters, err error) {
	m.silent, m.latest = silence{telemetry.Listen(scope)}, telemetry.Latest()
	meter := m.silent.Meter()
	m.name = attrOrchestrator.String(name)
	m.attrs = metric.WithAttributeSet(attribute.NewSet(m.name))
	errs := make([]error, 8)
	seconds := telemetry.Seconds()
	m.turns, errs[0] = meter.Int64Counter("holdfast.turns", metric.WithUnit("{turn}"),
		metric.WithDescription("Turns that have ended, by outcome; replayed: settled before."))
	m.duration, errs[1] = meter.Float64Histogram("holdfast.turn.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("From when a turn has begun, or is taken up, to its outcome."))
	m.lockWait, errs[2] = meter.Float64Histogram("holdfast.lock.wait", metric.WithUnit("s"), seconds,
		metric.WithDescription("Until a session was claimed."))
	errs[3] = m.countTokens(meter)
	m.cost, errs[4] = meter.Float64Counter("holdfast.usage.cost",
		metric.WithDescription("What the calls of models cost, by model, in the bot's currency."))
	m.drops, errs[5] = meter.Int64Counter("holdfast.events.dropped", metric.WithUnit("{event}"),
		metric.WithDescription("Events that a handler or the reader of a Stream was too slow for."))
	m.stuck, errs[6] = meter.Int64UpDownCounter("holdfast.functions.stuck", metric.WithUnit("{function}"),
		metric.WithDescription("Functions of the bot in this process that go on after they were given up."))
	m.errors, errs[7] = meter.Int64Counter("holdfast.turn.errors", metric.WithUnit("{turn}"),
		metric.WithDescription("Turns that have ended with an error, by its type."))
	m.zero()
	for _, e := range errs {
		if e != nil {
			err = e
		}
	}
	return m, err
}

// countTokens makes the metrics of tokens.
func (m *meters) countTokens(meter metric.Meter) (err error) {
	unit := metric.WithUnit("{token}")
	if !m.latest {
		m.tokens, err = meter.Int64Histogram("gen_ai.client.token.usage", unit, metric.WithExplicitBucketBoundaries(
			1, 4, 16, 64, 256, 1<<10, 1<<12, 1<<14, 1<<16, 1<<18, 1<<20, 1<<22, 1<<24, 1<<26),
			metric.WithDescription("Tokens of each call that the bot has told of, by kind and by model."))
		return err
	}
	m.input, err = meter.Int64Counter("gen_ai.client.inference.usage.input_tokens", unit,
		metric.WithDescription("Tokens of what models were asked, by provider and by model."))
	if err != nil {
		return err
	}
	m.output, err = meter.Int64Counter("gen_ai.client.inference.usage.output_tokens", unit,
		metric.WithDescription("Tokens of what models have answered, by provider and by model."))
	return err
}

// zero adds nothing to each counter. So each is there from 0: a rate does not see that a counter appears with 1. Of the
// types of errors those of this module are there. The types of the bot's errors and its models are not known yet.
func (m *meters) zero() {
	if !m.silent.Metered() {
		return
	}
	ctx := context.Background()
	for _, outcome := range outcomes {
		m.turns.Add(ctx, 0, metric.WithAttributes(m.name, attrOutcome.String(outcome)))
	}
	for _, t := range errorTypes {
		m.errors.Add(ctx, 0, metric.WithAttributes(m.name, telemetry.ErrorType.String(t.name)))
	}
	m.cost.Add(ctx, 0, metric.WithAttributes(m.name, telemetry.Operation.String(telemetry.Chat)))
	m.drops.Add(ctx, 0, m.attrs)
	m.stuck.Add(ctx, 0, m.attrs)
}

// ended counts a turn, or a call that never became one.
func (m *meters) ended(ev Event) {
	outcome := ev.Kind.outcome()
	if outcome == "" || !m.silent.Metered() {
		return
	}
	if ev.replayed {
		outcome = replayed
	}
	o := metric.WithAttributes(m.name, attrOutcome.String(outcome))
	m.turns.Add(context.Background(), 1, o)
	if ev.Err != nil {
		m.errors.Add(context.Background(), 1,
			metric.WithAttributes(m.name, telemetry.ErrorType.String(errorType(ev.Err))))
	} else if ev.failure != "" {
		m.errors.Add(context.Background(), 1, metric.WithAttributes(m.name, telemetry.ErrorType.String(ev.failure)))
	}
	if ev.Kind != TurnRefused && !ev.replayed {
		m.duration.Record(context.Background(), ev.Took.Seconds(), o)
	}
}

// waited notes the time from start until the session was owned.
func (m *meters) waited(start time.Time) {
	if m.silent.Metered() {
		m.lockWait.Record(context.Background(), time.Since(start).Seconds(), m.attrs)
	}
}

// usedOf counts tokens of one kind.
func (m *meters) usedOf(tokens int, kind string, attrs []attribute.KeyValue) {
	if tokens > 0 {
		m.tokens.Record(context.Background(), int64(tokens), metric.WithAttributes(attrs...),
			metric.WithAttributes(attrTokenType.String(kind)))
	}
}

// usedLatest counts tokens as the newest conventions say. Nobody has told whether they are of texts or of pictures.
func (m *meters) usedLatest(u Usage, attrs []attribute.KeyValue) {
	with := metric.WithAttributes(append(slices.Clip(attrs), attrModality.String("unknown"),
		telemetry.Provider.String(cmp.Or(u.Provider, "unknown")))...)
	if u.Input > 0 {
		m.input.Add(context.Background(), int64(u.Input), with)
	}
	if u.Output > 0 {
		m.output.Add(context.Background(), int64(u.Output), with)
	}
}

// used counts what a call of a model has cost.
func (m *meters) used(u Usage) {
	if !m.silent.Metered() {
		return
	}
	ctx := context.Background()
	attrs := []attribute.KeyValue{m.name, telemetry.Operation.String(telemetry.Chat)}
	if u.Model != "" {
		attrs = append(attrs, telemetry.Model.String(u.Model))
	}
	if m.latest {
		m.usedLatest(u, attrs)
	} else {
		m.usedOf(u.Input, "input", attrs)
		m.usedOf(u.Output, "output", attrs)
	}
	if u.Cost > 0 && !math.IsInf(u.Cost, 0) {
		m.cost.Add(ctx, u.Cost, metric.WithAttributes(attrs...))
	}
}

func (m *meters) drop(n int) {
	if n > 0 && m.silent.Metered() {
		m.drops.Add(context.Background(), int64(n), m.attrs)
	}
}

func (m *meters) given(n int64) {
	if m.silent.Metered() {
		m.stuck.Add(context.Background(), n, m.attrs)
	}
}
