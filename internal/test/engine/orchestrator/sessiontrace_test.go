package orchestrator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// named returns the spans with a name, by the time of their start.
func named(spans *tracetest.SpanRecorder, name string) (all []trace.ReadOnlySpan) {
	for _, s := range spans.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b trace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	return all
}

func attrOf(s trace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func linked(from, to trace.ReadOnlySpan) bool {
	return slices.ContainsFunc(from.Links(), func(l trace.Link) bool { return l.SpanContext.Equal(to.SpanContext()) })
}

// wantInTrace checks that each run has a span in the trace of a session, which is linked with the span of its turn both
// ways. It returns the runs as text.
func wantInTrace(t *testing.T, spans *tracetest.SpanRecorder, bot, session string) (runs []string) {
	t.Helper()
	turns := named(spans, "orchestrator.turn")
	for _, s := range named(spans, "orchestrator.run") {
		ids := fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.Parent().SpanID())
		if want := orchestrator.SessionTrace(bot, session); ids != want || !s.Parent().IsRemote() {
			t.Errorf("a run is in %s, want %s", ids, want)
		}
		i := slices.IndexFunc(turns, func(turn trace.ReadOnlySpan) bool { return linked(s, turn) })
		if i < 0 || !linked(turns[i], s) || attrOf(turns[i], "holdfast.run") != attrOf(s, "holdfast.run") ||
			attrOf(turns[i], "holdfast.outcome") != attrOf(s, "holdfast.outcome") {
			t.Errorf("a run and its turn are not linked: %v", s.Links())
		}
		runs = append(runs, strings.Join([]string{
			attrOf(s, "holdfast.turn"), attrOf(s, "holdfast.input.kind"), attrOf(s, "holdfast.resumed"),
			attrOf(s, "holdfast.outcome"),
		}, " "))
	}
	return runs
}

// All runs of a session share a trace: those of two processes, of a run that was cut off and goes on elsewhere, of an
// input that has waited, and of Put. Each is linked with its turn, which stays in the trace of its caller.
func TestSessionTrace(t *testing.T) {
	spans := traced(t)
	w, o := newWorld(), Options{SessionTrace: true, Inbox: new(inbox.Memory)}
	one, other := w.Start(t, steps(nil), o), w.Start(t, steps(nil), o)

	ctx, request := otel.Tracer("test").Start(t.Context(), "request")
	in := Input{Text: "a secret", RequestID: "r", Kind: "say"}
	for range 2 { // the second one is a repeat, and no run
		if _, err := one.Execute(ctx, "s", in, nil); err != nil {
			t.Fatal(err)
		}
	}
	request.End()
	dies := &grave{World: w}
	if _, err := dies.Ends().Start(t, steps(dies.Die), o).Execute(t.Context(), "s", Input{}, nil); err == nil {
		t.Fatal("the process did not die")
	}
	w.FreeUp(t, "steps")
	if _, err := other.Recover(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	enqueue(t, one, "waits")
	if got := recoverAll(t, other); !slices.Equal(got, []string{"settled"}) {
		t.Errorf("outcomes %q", got)
	}
	if _, err := other.Put(t.Context(), "s", orchestrator.AnyVersion, Input{Kind: "mend"}, add(1), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 say false settled", "1  false left", "1  true settled", "2 job false settled", "3 mend false settled",
	}
	if got := wantInTrace(t, spans, "steps", "s"); !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
	if turn := named(spans, "orchestrator.turn")[0]; turn.Parent().SpanID() != request.SpanContext().SpanID() {
		t.Error("a turn has left the trace of its caller")
	}
	if text := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(spans.Ended())); strings.Contains(text, "secret") {
		t.Error("the input is in a span")
	}
}

// A turn without the option, and a call that never becomes a run, have no span in the trace of the session. What fails
// has one, with the type of the error.
func TestSessionTraceOf(t *testing.T) {
	fails := steps(nil)
	fails.Intents["one"] = Intent{
		Run: func(context.Context, *Turn) error { return errSecret("error") }, Next: orchestrator.End,
	}
	refuses := steps(nil)
	refuses.Begin = func(context.Context, *Turn) error { return errSecret("error") }
	for name, c := range map[string]struct {
		def  Def
		o    Options
		want []string
	}{
		"without the option": {steps(nil), Options{}, nil},
		"with it":            {steps(nil), Options{SessionTrace: true}, []string{"0  false settled"}},
		"failed":             {fails, Options{SessionTrace: true}, []string{"0  false failed"}},
		"refused":            {refuses, Options{SessionTrace: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spans := traced(t)
			_, err := newWorld().Start(t, c.def, c.o).Execute(t.Context(), "s", Input{}, nil)
			if got := wantInTrace(t, spans, "steps", "s"); !slices.Equal(got, c.want) {
				t.Errorf("runs %q, want %q", got, c.want)
			}
			for _, s := range named(spans, "orchestrator.run") {
				if (err != nil) != (attrOf(s, "error.type") != "") {
					t.Errorf("error.type is %q after %v", attrOf(s, "error.type"), err)
				}
			}
		})
	}
}

// Definition.TraceOf names the trace. If it fails, or names none, the session has its own.
func TestTraceOf(t *testing.T) {
	for name, c := range map[string]struct {
		of           func(*State) (string, string)
		bot, session string
	}{
		"another":   {func(s *State) (string, string) { return "boss", fmt.Sprint("root ", s.N) }, "boss", "root 7"},
		"none":      {func(*State) (string, string) { return "boss", "" }, "steps", "s"},
		"it panics": {func(*State) (string, string) { panic("x") }, "steps", "s"},
	} {
		t.Run(name, func(t *testing.T) {
			spans := traced(t)
			d := steps(nil)
			d.Begin = func(_ context.Context, t *Turn) error { t.State.N = 7; return nil }
			d.TraceOf = c.of
			execute(t, newWorld().Start(t, d, Options{SessionTrace: true}), Input{})
			if got := wantInTrace(t, spans, c.bot, c.session); len(got) != 1 {
				t.Errorf("runs %q", got)
			}
		})
	}
}

// The trace of a session has what the sampler of the program has chosen for each turn.
func TestSessionTraceSampled(t *testing.T) {
	spans := traced(t)
	otel.SetTracerProvider(trace.NewTracerProvider(
		trace.WithSpanProcessor(spans), trace.WithSampler(trace.ParentBased(trace.NeverSample()))))
	bot := newWorld().Start(t, steps(nil), Options{SessionTrace: true})
	execute(t, bot, Input{})
	if n := len(spans.Ended()); n > 0 {
		t.Errorf("%d spans of a turn that is not sampled", n)
	}
	sampled := oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: oteltrace.TraceID{1}, SpanID: oteltrace.SpanID{1}, TraceFlags: oteltrace.FlagsSampled, Remote: true,
	})
	ctx := oteltrace.ContextWithRemoteSpanContext(t.Context(), sampled)
	if _, err := bot.Execute(ctx, "s", Input{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := wantInTrace(t, spans, "steps", "s"); !slices.Equal(got, []string{"1  false settled"}) {
		t.Errorf("runs %q", got)
	}
}
