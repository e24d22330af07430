package agents_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// team returns a boss who asks a clerk, who needs a photo. dies is called in the first reply of the clerk.
func team(t *testing.T, st agent.Stores, dies func()) (boss, clerk *agent.Agent[struct{}]) {
	t.Helper()
	named := func(name, asks, args string, tool agent.Tool, first func()) *agent.Agent[struct{}] {
		model := agent.ModelFunc(func(ctx context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if first != nil {
				first()
				return agent.Reply{}, ctx.Err()
			}
			m := message.Assistant("done")
			if r.Said[len(r.Said)-1].Role == message.RoleUser {
				m.Blocks = []message.Block{message.ToolCall("c", asks, json.RawMessage(args))}
			}
			return agent.Reply{Message: m}, nil
		})
		a, err := agent.New(agent.Definition[struct{}]{Name: name, Model: model, Tools: []agent.Tool{tool}}, st,
			&orchestrator.Options{SessionTrace: true, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return a
	}
	clerk = named("clerk", "photo", `{}`, agent.ClientTool[struct{}]("photo", ""), dies)
	return named("boss", "clerk", `{"input":"x"}`, agent.ChildTool(clerk, ""), nil), clerk
}

// Each call of a model and of a tool is a span within that of its turn, in the words of OpenTelemetry's conventions.
// None has what was said.
func TestSpansOfAgent(t *testing.T) {
	spans, before := tracetest.NewSpanRecorder(), otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	asked := 0
	model := agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
		r := agent.Reply{Message: message.Assistant("done"), Usage: orchestrator.Usage{
			Input: 3, Output: 2, Model: "gpt", Provider: "openai",
		}}
		switch asked++; asked {
		case 1:
			return agent.Reply{}, agent.HTTPError(errors.New("secret"), 503, nil)
		case 2:
			r.Message.Blocks = []message.Block{
				message.ToolCall("c1", "look", json.RawMessage(`{}`)), message.ToolCall("c2", "fails", json.RawMessage(`{}`)),
				message.ToolCall("c3", "panics", json.RawMessage(`{}`)), message.ToolCall("c4", "asks", json.RawMessage(`{}`)),
			}
		}
		return r, nil
	})
	type none struct{}
	tool := func(name string, run func() error) agent.Tool {
		return agent.Read(name, "", func(context.Context, none) (string, error) { return "secret", run() })
	}
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "boss", Model: model, Retry: retry.Exponential(2, time.Millisecond),
		Tools: []agent.Tool{
			tool("look", func() error { return nil }), tool("fails", func() error { return errors.New("secret") }),
			tool("panics", func() error { panic("secret") }),
			tool("asks", func() error { return agent.Ask(agent.Question{Text: "secret"}) }),
		},
	}, agent.InMemory(), &orchestrator.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Say(t.Context(), "s", agent.Text("secret"), nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Bot().Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range spans.Ended() {
		if strings.Contains(s.InstrumentationScope().Name, "/orchestrator") {
			continue
		}
		line := fmt.Sprint(s.Name(), " ", s.SpanKind())
		attrs := s.Attributes()
		slices.SortFunc(attrs, func(a, b attribute.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
		for _, kv := range attrs {
			line += fmt.Sprintf(" %s=%s", strings.TrimPrefix(string(kv.Key), "gen_ai."), kv.Value.String())
		}
		got = append(got, line)
		if !s.Parent().IsValid() {
			t.Errorf("%s is within no span", s.Name())
		}
	}
	slices.Sort(got)
	want := []string{
		"chat client error.type=503 operation.name=chat",
		"chat gpt client operation.name=chat provider.name=openai request.model=gpt usage.input_tokens=3 " +
			"usage.output_tokens=2",
		"execute_tool asks internal operation.name=execute_tool tool.call.id=c4 tool.name=asks tool.type=function",
		"execute_tool fails internal error.type=*errors.errorString operation.name=execute_tool tool.call.id=c2 " +
			"tool.name=fails tool.type=function",
		"execute_tool look internal operation.name=execute_tool tool.call.id=c1 tool.name=look tool.type=function",
		"execute_tool panics internal error.type=*orchestrator.PanicError operation.name=execute_tool tool.call.id=c3 " +
			"tool.name=panics tool.type=function",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(spans.Ended())); strings.Contains(text, "secret") {
		t.Error("what was said is in a span")
	}
}

// The runs of a child are in the trace of its root: also one that another process takes up, and one that nobody at the
// root has asked for. A branch has a trace of its own.
func TestSessionTraceOfFamily(t *testing.T) {
	spans, before := tracetest.NewSpanRecorder(), otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	st := agent.InMemory()
	process, die := context.WithCancel(t.Context())
	boss, _ := team(t, st, die)
	if _, err := boss.Say(process, "s", agent.Text("go"), nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Fatal(err)
	}
	boss, clerk := team(t, st, nil)
	recovers := func(a *agent.Agent[struct{}]) {
		t.Helper()
		for session, err := range a.Bot().Recoverable(t.Context(), true) {
			outcome := ""
			if err == nil {
				outcome, err = a.Bot().Recover(t.Context(), session)
			}
			if err != nil || outcome != "settled" {
				t.Errorf("%s: %s, %v", session, outcome, err)
			}
		}
	}
	recovers(clerk) // without its parent
	recovers(boss)
	for o, err := range clerk.Waiting(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clerk.Answer(t.Context(), o.Session, o.Pending[0].Call.ID, agent.Done("photo")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := boss.Continue(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if err := boss.Branch(t.Context(), "s", 1, "b"); err != nil {
		t.Fatal(err)
	}

	got := make(map[string][]string)
	for _, s := range spans.Ended() {
		if s.Name() != "orchestrator.run" {
			continue
		}
		attrs := make(map[string]string)
		for _, a := range s.Attributes() {
			attrs[string(a.Key)] = a.Value.String()
		}
		in := fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.Parent().SpanID())
		got[in] = append(got[in], fmt.Sprint(attrs["holdfast.orchestrator"], " ", attrs["holdfast.turn"], " ",
			attrs["holdfast.input.kind"], " ", attrs["holdfast.resumed"], " ", attrs["holdfast.outcome"]))
	}
	for session, want := range map[string][]string{
		"s": {
			"boss 0 say false left", "boss 0 say true settled", "boss 1 continue false settled", "clerk 0  false left",
			"clerk 0  true settled", "clerk 1 answer false settled",
		},
		"b": {"boss 1 drop false settled"},
	} {
		in := orchestrator.SessionTrace("boss", session)
		slices.Sort(got[in])
		if !slices.Equal(got[in], want) {
			t.Errorf("the trace of %s has\n%q, want\n%q", session, got[in], want)
		}
		delete(got, in)
	}
	if len(got) > 0 {
		t.Errorf("other traces: %q", got)
	}
}
