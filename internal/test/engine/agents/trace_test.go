package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
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
