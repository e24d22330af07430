package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// traced returns a recorder of the spans of the test.
func traced(t *testing.T) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	return spans
}

// tree draws a trace: each span under its parent, with its attributes.
func tree(spans []trace.ReadOnlySpan, parent string, indent string) string {
	var b strings.Builder
	for _, s := range spans {
		if s.Parent().SpanID().String() != parent || ofStore(s) {
			continue
		}
		b.WriteString(indent + s.Name())
		for _, a := range s.Attributes() {
			if key := strings.TrimPrefix(string(a.Key), "holdfast."); !slices.Contains([]string{
				"run", "session", "orchestrator", "gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id",
			}, key) {
				fmt.Fprintf(&b, " %s=%s", key, a.Value.String())
			}
		}
		b.WriteString("\n" + tree(spans, s.SpanContext().SpanID().String(), indent+"  "))
	}
	return b.String()
}

// ofStore reports whether a span is one of a store, of a wait or of a delivery.
func ofStore(s trace.ReadOnlySpan) bool {
	name, _, _ := strings.Cut(s.Name(), ".")
	return name == "checkpoint" || name == "snapshot" || s.Name() == "orchestrator.wait" ||
		s.Name() == "orchestrator.deliver"
}

const noParent = "0000000000000000"

// A turn is one trace. The trace of a resumed turn is linked to its first attempt.
func TestTraces(t *testing.T) {
	spans := traced(t)
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a secret"})
	if _, err := w.Start(t, steps(nil), Options{}).Resume(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	all := spans.Ended()
	slices.SortFunc(all, func(a, b trace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	want := `orchestrator.turn turn=0 resumed=false outcome=left gen_ai.usage.input_tokens=2 gen_ai.usage.output_tokens=0 error.type=ErrFenced
  orchestrator.iteration iteration=0
    orchestrator.intent intent=one attempt=1
  orchestrator.iteration iteration=1
    orchestrator.intent intent=two attempt=1
orchestrator.turn turn=0 resumed=true outcome=settled gen_ai.usage.input_tokens=3 gen_ai.usage.output_tokens=0
  orchestrator.iteration iteration=1
    orchestrator.intent intent=two attempt=1
  orchestrator.iteration iteration=2
    orchestrator.intent intent=three attempt=1
`
	if got := tree(all, noParent, ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var first, second trace.ReadOnlySpan
	for _, s := range all {
		if s.Name() == "orchestrator.turn" && first == nil {
			first = s
		} else if s.Name() == "orchestrator.turn" {
			second = s
		}
	}
	if links := second.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != first.SpanContext().SpanID() {
		t.Errorf("links %v, want one to %v", links, first.SpanContext())
	}
	if text := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(all)); strings.Contains(text, "secret") {
		t.Error("the input is in a span")
	}
}

// A repeated request that finishes its own run is one span, and linked too.
func TestTraceOfOwnRun(t *testing.T) {
	spans := traced(t)
	w := newWorld()
	in := Input{Text: "a", RequestID: "r"}
	w.Crash(t, steps, in)
	execute(t, w.Start(t, steps(nil), Options{}), in)
	var turns []trace.ReadOnlySpan
	for _, s := range spans.Ended() {
		if s.Name() == "orchestrator.turn" {
			turns = append(turns, s)
		}
	}
	if len(turns) != 2 || len(turns[1].Links()) != 1 {
		t.Errorf("%d spans of turns", len(turns))
	}
}

// The span of every turn ends, however the turn ends, within the caller's span.
func TestTraceEnds(t *testing.T) {
	spans := traced(t)
	ctx, outer := otel.Tracer("test").Start(t.Context(), "request")
	boom := errors.New("boom, secretly")
	d := echo()
	d.Begin = func(_ context.Context, t *Turn) error {
		if t.Input.Text == "refused" {
			return boom
		}
		return nil
	}
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		if t.Input.Text == "failed" {
			return boom
		}
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	for _, text := range []string{"settled", "refused", "failed"} {
		_, _ = bot.Execute(ctx, "s", Input{Text: text}, nil)
	}
	outer.End()
	got := tree(spans.Ended(), outer.SpanContext().SpanID().String(), "")
	for _, want := range []string{
		"turn=0 resumed=false outcome=settled", "turn=1 resumed=false outcome=refused",
		"turn=1 resumed=false outcome=failed",
	} {
		if !strings.Contains(got, "orchestrator.turn "+want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if text := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(spans.Ended())); strings.Contains(text, "secretly") {
		t.Error("the text of an error is in a span")
	}
}

func TestMetrics(t *testing.T) {
	reader := meteredBy(t)
	w := newWorld()
	down := errors.New("down")
	d := steps(nil)
	d.Name = "metered"
	d.Deliver = func(context.Context, *Result) error { return down }
	spend := d.Intents["one"].Run
	d.Intents["one"] = Intent{Next: d.Intents["one"].Next, Run: func(ctx context.Context, t *Turn) error {
		t.AddUsage(orchestrator.Usage{Input: 30, Output: 4, Cost: 0.5, Model: "gpt"})
		return spend(ctx, t)
	}}
	bot := w.Start(t, d, Options{})
	stop, err := bot.ObserveBacklog()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	execute(t, bot, Input{Text: "a"})
	_, err = bot.Execute(t.Context(), "", Input{}, nil)
	wantOp(t, err, "input")
	ctx, cancel := context.WithCancel(t.Context())
	d.Begin = func(context.Context, *Turn) error { cancel(); return nil }
	_, err = w.Start(t, d, Options{}).Execute(ctx, "left", Input{}, nil)
	wantErr(t, err, context.Canceled)

	got := collectAll(t, reader)
	for name, want := range map[string]float64{
		"holdfast.turns settled": 1, "holdfast.turns refused": 2, "holdfast.turn.duration settled": 1,
		"holdfast.turns failed": 0, "holdfast.turns suspended": 0, "holdfast.turns replayed": 0,
		"holdfast.events.dropped ": 0, "holdfast.functions.stuck ": 0, "holdfast.usage.cost ": 0,
		"holdfast.lock.wait ": 2, "holdfast.runs running": 0, "holdfast.runs waiting": 0, "holdfast.deliveries.owed ": 1,
		"gen_ai.client.token.usage input gpt": 1, "gen_ai.client.token.usage output gpt": 1, "holdfast.usage.cost gpt": 0.5,
	} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s is %v, want %v; all: %v", name, n, want, got)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "boundaries") {
			t.Error(name)
		}
	}
}

// meteredBy returns a reader of the meter provider that is set until the test ends.
func meteredBy(t *testing.T) *metric.ManualReader {
	t.Helper()
	reader := metric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	return reader
}

func collectAll(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			collect(got, m)
		}
	}
	return got
}

// collect adds the values of m. For a histogram, it counts the values.
func collect(all map[string]float64, m metricdata.Metrics) {
	add := func(attrs attribute.Set, value float64) {
		name := m.Name
		for _, key := range []attribute.Key{
			"holdfast.outcome", "holdfast.status", "gen_ai.token.type", "gen_ai.request.model",
		} {
			if v, ok := attrs.Value(key); ok {
				name += " " + v.AsString()
			}
		}
		if !strings.Contains(name, " ") {
			name += " "
		}
		all[name] += value
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Count))
			if m.Unit == "s" && (p.Bounds[0] > .01 || slices.Max(p.Bounds) < 600 || len(p.Bounds) < 15) {
				all["boundaries that are not for seconds: "+m.Name]++
			}
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Count))
		}
	}
}

// A turn is the invocation of an agent, in the words of OpenTelemetry's conventions. What they have renamed has its new
// name if the environment asks for it.
func TestConventions(t *testing.T) {
	for asks, want := range map[string][]string{
		"": {
			"orchestrator.turn", "gen_ai.client.token.usage input gpt 1", "gen_ai.client.token.usage output gpt 1",
		},
		"http, gen_ai_latest_experimental": {
			"invoke_agent bot", "gen_ai.client.inference.usage.input_tokens gpt 30",
			"gen_ai.client.inference.usage.output_tokens gpt 4",
		},
	} {
		t.Run(asks, func(t *testing.T) {
			t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", asks)
			spans, reader := traced(t), meteredBy(t)
			d := echo()
			d.Name = "bot"
			d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
				t.AddUsage(orchestrator.Usage{Input: 30, Output: 4, Model: "gpt", Provider: "openai"})
				t.AddUsage(orchestrator.Usage{Provider: "anthropic"})
				return nil
			}}
			execute(t, newWorld().Start(t, d, Options{}), Input{Text: "a"})
			var got []string
			for _, s := range spans.Ended() {
				if s.InstrumentationScope().Version == "" {
					t.Errorf("the scope of %s has no version", s.Name())
				}
				if !slices.Contains(s.Attributes(), attribute.String("gen_ai.operation.name", "invoke_agent")) {
					continue
				}
				got = append(got, s.Name())
				for _, a := range []attribute.KeyValue{
					attribute.String("gen_ai.agent.name", "bot"), attribute.String("gen_ai.conversation.id", "s"),
					attribute.String("gen_ai.provider.name", "openai"), attribute.Int("gen_ai.usage.input_tokens", 30),
				} {
					if !slices.Contains(s.Attributes(), a) {
						t.Errorf("%s has no %v", s.Name(), a)
					}
				}
			}
			for name, n := range collectAll(t, reader) {
				if strings.HasPrefix(name, "gen_ai.") {
					got = append(got, fmt.Sprint(name, " ", n))
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Waiting for the session, each call of a store and each delivery is a span, and names its run if it has one.
func TestStoreSpans(t *testing.T) {
	spans := traced(t)
	d := steps(nil)
	d.Deliver = func(context.Context, *Result) error { return &net.OpError{Op: "dial", Err: errors.New("secretly")} }
	d.Intents["one"] = Intent{Next: d.Intents["one"].Next, Run: func(_ context.Context, t *Turn) error {
		t.AddUsage(orchestrator.Usage{Input: 30, Output: 4, Cost: 0.5})
		return nil
	}}
	w := newWorld()
	res := execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
	runs, seen := 0, make(map[string]trace.ReadOnlySpan)
	for _, s := range spans.Ended() {
		seen[s.Name()] = s
		for _, a := range s.Attributes() {
			if a.Key == "holdfast.run" && a.Value.AsString() == res.RunID {
				runs++
			}
		}
	}
	for _, name := range []string{
		"orchestrator.wait", "checkpoint.Claim", "snapshot.Begin", "snapshot.Save", "checkpoint.Append",
		"orchestrator.deliver", "checkpoint.Mark",
	} {
		if seen[name] == nil {
			t.Errorf("no span %s", name)
		}
	}
	if runs < 5 {
		t.Errorf("%d spans name the run", runs)
	}
	for name, want := range map[string]attribute.KeyValue{
		"orchestrator.deliver": attribute.String("error.type", "*net.OpError"),
		"orchestrator.turn":    attribute.Int("gen_ai.usage.input_tokens", 32),
	} {
		if s := seen[name]; s == nil || !slices.Contains(s.Attributes(), want) {
			t.Errorf("%s: want %v", name, want)
		}
	}
	if text := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(spans.Ended())); strings.Contains(text, "secret") {
		t.Error("the text of an error is in a span")
	}
}
