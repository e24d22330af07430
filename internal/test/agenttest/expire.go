package agenttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/transcript"
)

// due lets an agent do what is due, until it has dealt with a session.
func due[C any](t *testing.T, a *agent.Agent[C]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		switch n, err := a.Expire(ctx, 0); {
		case err != nil:
			t.Fatal(err)
		case n > 0:
			return
		}
	}
}

// Nobody answers in time: another process finds the session, and the model is told once.
func outOfTime(t *testing.T, st agent.Stores) {
	tool, patient := agent.ClientTool[None]("camera", ""), agent.ClientTool[None]("patient", "")
	tool.Until = 10 * time.Millisecond
	d := agent.Definition[None]{
		Tools: []agent.Tool{tool, patient},
		Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
			return Answers(Call("c", r.Said[0].Blocks[0].Text, `{}`))(ctx, r, token)
		}),
	}
	a, other := New(t, d, st), New(t, d, st)
	Say(t, a, "for ever", "patient")
	Say(t, a, "s", "camera")
	due(t, other)
	if n, err := a.Expire(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("%d are due once more: %v", n, err)
	}
	s, _ := Get(t, a, "s")
	if got := Told(t, a, "s"); s.Status != agent.Completed || !By(&s, "c", agent.OutOfTime) ||
		strings.Count(got, "c: nobody has answered in time") != 1 {
		t.Errorf("%s: %s", s.Status, got)
	}
	if _, err := a.Answer(t.Context(), "s", "c", agent.Done("x")); !errors.Is(err, agent.ErrAnswered) {
		t.Error(err)
	}
	if s, _ := Get(t, a, "for ever"); s.Status != agent.Paused {
		t.Errorf("a call without Until: %+v", s)
	}
}

// A session that has expired is deleted with its child and with what was said. One that has got more time lives.
func sessionExpires(t *testing.T, st agent.Stores) {
	child := New(t, agent.Definition[None]{Name: "child", Model: agent.ModelFunc(
		func(context.Context, agent.Request, func(string)) (agent.Reply, error) { return Says("done") },
	)}, st)
	a := New(t, agent.Definition[None]{
		Model: Answers(Call("", "child", `{"input":"x"}`)), Tools: []agent.Tool{agent.ChildTool(child, "")},
	}, st)
	for _, session := range []string{"lives", "over"} {
		l := agent.Labels{Expires: time.Now().Add(time.Hour)}
		if err := a.Create(t.Context(), session, None{}, l); err != nil {
			t.Fatal(err)
		}
		Say(t, a, session, "go "+Long)
		Say(t, a, session, "go")
	}
	if n, err := a.Expire(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("%d are due: %v", n, err)
	}
	_, err := a.Update(t.Context(), "over", 0, func(s *agent.State[None]) error { s.Expires = time.Now(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	due(t, a)
	if left := Sessions(t, st, "support"); !slices.Equal(left, []string{"lives"}) {
		t.Errorf("%q are left", left)
	}
	if left := Sessions(t, st, "child"); len(left) != 2 || !strings.HasPrefix(left[0], "lives/") {
		t.Errorf("the children %q are left", left)
	}
	k := transcript.Key{Orchestrator: "support", Session: "over"}
	for m, err := range st.Transcript.Read(t.Context(), k, []transcript.Span{{From: 1, Through: 9}}) {
		if err == nil {
			t.Errorf("a message is left: %+v", m)
		}
	}
	Told(t, a, "lives")
}
