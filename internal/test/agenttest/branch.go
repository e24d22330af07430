package agenttest

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/transcript"
)

// A branch of a session that waits has all that was said, and waits for nothing. Both go their own ways.
func branch(t *testing.T, st agent.Stores) {
	w := new(Shop)
	a := New(t, w.Definition(), st)
	o := Say(t, a, "s", "refund "+Long)
	for range 2 { // a repeat does nothing
		if err := a.Branch(t.Context(), "s", o.Version, "what-if"); err != nil {
			t.Fatal(err)
		}
	}
	if s, _ := Get(t, a, "what-if"); len(s.Open) > 0 || s.Status == agent.Paused {
		t.Errorf("the branch waits: %+v", s)
	}
	if _, err := a.Answer(t.Context(), "what-if", "c3", agent.Approve("desk")); !errors.Is(err, agent.ErrNoCall) {
		t.Error(err)
	}
	Say(t, a, "what-if", "otherwise "+Long)
	Told(t, a, "what-if")
	for id, ans := range map[string]agent.Answer{"c2": agent.Done("photo"), "c3": agent.Approve("desk")} {
		o, err := a.Answer(t.Context(), "s", id, ans)
		Settled(t, o, err)
	}
	if s, _ := Get(t, a, "s"); s.Status != agent.Completed || w.Refunds.Load() != 1 {
		t.Errorf("%+v", s)
	}
	for session, text := range map[string]string{"taken": Long, "short": "hello"} {
		Say(t, a, session, text)
		if err := a.Branch(t.Context(), "s", 3, session); !errors.Is(err, agent.ErrExists) {
			t.Errorf("a branch over a session: %v", err)
		}
	}
	k := transcript.Key{Orchestrator: "support", Session: "short"}
	for m, err := range st.Transcript.Read(t.Context(), k, []transcript.Span{{From: 1, Through: 9}}) {
		if err == nil {
			t.Errorf("what was said elsewhere came to a session that exists: %+v", m)
		}
	}
	if err := a.Branch(t.Context(), "s", 99, "x"); !errors.Is(err, agent.ErrUnknown) {
		t.Error(err)
	}
	if err := a.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	Told(t, a, "what-if")
	if _, _, err := a.Get(t.Context(), "s"); !errors.Is(err, agent.ErrUnknown) {
		t.Error(err)
	}
}
