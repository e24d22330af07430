package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/transcript"
)

// everything returns all that stores have of an agent and of some sessions, which need not exist.
func everything(t *testing.T, st agent.Stores, name string, sessions ...string) string {
	t.Helper()
	var all []any
	add := func(v any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	for _, session := range append(Sessions(t, st, name), sessions...) {
		k := checkpoint.Key{Orchestrator: name, Session: session}
		for cp, err := range st.Checkpoints.Turns(t.Context(), k, checkpoint.Newest) {
			add(cp, err)
		}
		for m, err := range st.Transcript.Read(t.Context(), k, []transcript.Span{{From: 1, Through: 50}}) {
			if !errors.Is(err, transcript.ErrDamaged) { // it is there
				add(m, err)
			}
		}
		for _, kind := range []inbox.Kind{inbox.Stop, inbox.Message} {
			for it, err := range st.Inbox.Items(t.Context(), k, kind) {
				add(it, err)
			}
		}
	}
	q := snapshot.Query{Key: snapshot.Key{Orchestrator: name}}
	for r, err := range st.Snapshots.Runs(t.Context(), q) {
		r.Age = 0
		add(r, err)
	}
	for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{}) {
		add(e, err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What cannot be is refused with an error of its own, and nothing is stored.
func refusals(t *testing.T, st agent.Stores) {
	a, err := agent.New(new(Shop).Definition(), st, &orchestrator.Options{KeepSnapshots: 2, Logger: Quiet.Logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Bot().Shutdown(context.WithoutCancel(t.Context())) })
	if err := a.Create(t.Context(), "done", None{}, agent.Labels{Mode: "standard"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		Say(t, a, "done", "refund "+Long)
		o, err := a.Drop(t.Context(), "done")
		Settled(t, o, err)
	}
	Say(t, a, "s", "refund A1")
	_, version := Get(t, a, "done")
	large := strings.Repeat("x", 1<<20)

	type state = *agent.State[None]
	update := func(session string, version int, f func(state) error) error {
		_, err := a.Update(t.Context(), session, version, f)
		return err
	}
	same := func(state) error { return nil }
	outcome := func(_ *agent.Outcome[None], err error) error { return err }
	answer := func(session, call string, ans agent.Answer) error {
		return outcome(a.Answer(t.Context(), session, call, ans))
	}
	branch := func(from string, version int, to string) func() error {
		return func() error { return a.Branch(t.Context(), from, version, to) }
	}
	says := func(session, text string) func() error {
		return func() error { return outcome(a.Say(t.Context(), session, agent.Text(text), nil)) }
	}
	goesOn := func(session string) func() error {
		return func() error { return outcome(a.Continue(t.Context(), session, nil)) }
	}
	raw := func(data string) func() error {
		return func() error {
			_, err := a.Bot().Execute(t.Context(), "done", orchestrator.Input{Data: json.RawMessage(data)}, nil)
			return err
		}
	}
	var bad error // an InputError, and no other
	type refusal struct {
		what string
		do   func() error
		want error
	}
	cases := []refusal{
		{"no answer", func() error { return answer("s", "c2", agent.Answer{}) }, agent.ErrKind},
		{"another kind", func() error { return answer("s", "c2", agent.Approve("ann")) }, agent.ErrKind},
		{"no such call", func() error { return answer("s", "c9", agent.Done("x")) }, agent.ErrNoCall},
		{"a call without a name", func() error { return answer("s", "", agent.Done("x")) }, agent.ErrNoCall},
		{"a call that does not wait", func() error { return answer("s", "c1", agent.Done("x")) }, agent.ErrNoCall},
		{"a call of another session", func() error { return answer("done", "c2", agent.Done("x")) }, agent.ErrNoCall},
		{"an answer in no session", func() error { return answer("new", "c2", agent.Done("x")) }, agent.ErrNoCall},
		{"a large result", func() error { return answer("s", "c2", agent.Done(large)) }, bad},
		{"a large note", func() error { return answer("s", "c3", agent.Refuse("ann", large)) }, bad},
		{"a large name", func() error { return answer("s", "c3", agent.Approve(large)) }, bad},
		{"another kind is submitted", func() error {
			return outcome(a.Submit(t.Context(), "s", "c2", agent.Approve("ann")))
		}, agent.ErrKind},
		{"an input of no kind", raw(`{"op":"other"}`), bad},
		{"an input that is none", raw(`[]`), bad},
		{"an answer that is none", raw(`{"op":"answer","call":"c2"}`), bad},
		{"a patch that is none", raw(fmt.Sprintf(`{"op":"update","at":%d,"patch":[]}`, version)), bad},
		{"nothing is said", says("done", " "), bad},
		{"more than an input", says("done", large), bad},
		{"said while calls wait", says("s", "x"), agent.ErrPending},
		{"continued while calls wait", goesOn("s"), agent.ErrPending},
		{"nothing to continue", goesOn("done"), agent.ErrIdle},
		{"nothing to stop", func() error { return a.Stop(t.Context(), "done", "", "x") }, agent.ErrIdle},
		{"another run to stop", func() error { return a.Stop(t.Context(), "s", "other", "x") }, agent.ErrIdle},
		{"created again", func() error {
			return a.Create(t.Context(), "done", None{}, agent.Labels{})
		}, agent.ErrExists},
		{"imported over it", func() error {
			_, err := a.Import(t.Context(), "done", []message.Message{message.User("x")}, None{}, agent.Labels{})
			return err
		}, agent.ErrExists},
		{"imported from nothing", func() error {
			_, err := a.Import(t.Context(), "new", nil, None{}, agent.Labels{})
			return err
		}, bad},
		{"an update that fails", func() error {
			return update("done", 0, func(s state) error { s.User = "eve"; return ErrModel })
		}, ErrModel},
		{"an update of the agent's", func() error {
			return update("done", 0, func(s state) error { s.User, s.Self = "eve", "x"; return nil })
		}, agent.ErrReserved},
		{"an update of an old version", func() error { return update("done", version-1, same) }, agent.ErrStale},
		{"an update of a later version", func() error { return update("done", version+1, same) }, agent.ErrStale},
		{"an update below zero", func() error { return update("done", -1, same) }, agent.ErrStale},
		{"an update of nothing", func() error { return update("new", 0, same) }, agent.ErrUnknown},
		{"a status that is none", func() error {
			return update("done", 0, func(s state) error { s.Status = "asleep"; return nil })
		}, bad},
		{"another mode", func() error {
			return update("done", 0, func(s state) error { s.Mode = "other"; return nil })
		}, bad},
		{"a branch of a pruned turn", branch("done", 1, "new"), agent.ErrUnknown},
		{"a branch of the future", branch("done", 99, "new"), agent.ErrUnknown},
		{"a branch of turn 0", branch("done", 0, "new"), agent.ErrUnknown},
		{"a branch of the end of time", branch("done", checkpoint.Newest+1, "new"), agent.ErrUnknown},
		{"a branch below zero", branch("done", -7, "new"), agent.ErrUnknown},
		{"a branch of nothing", branch("none", 1, "new"), agent.ErrUnknown},
		{"a branch over a session", branch("done", version, "s"), agent.ErrExists},
		{"a branch over itself", branch("done", version, "done"), bad},
		{"continued, and not there", goesOn("new"), agent.ErrUnknown},
		{"dropped, and not there", func() error { return outcome(a.Drop(t.Context(), "new")) }, agent.ErrUnknown},
		{"no summaries", func() error { return outcome(a.Compact(t.Context(), "done", nil)) }, bad},
	}
	for _, id := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 600)} {
		for what, do := range map[string]func() error{
			"Say":      says(id, "x"),
			"Answer":   func() error { return answer(id, "c2", agent.Done("x")) },
			"Continue": goesOn(id),
			"Drop":     func() error { return outcome(a.Drop(t.Context(), id)) },
			"Compact":  func() error { return outcome(a.Compact(t.Context(), id, nil)) },
			"Stop":     func() error { return a.Stop(t.Context(), id, "", "x") },
			"Create":   func() error { return a.Create(t.Context(), id, None{}, agent.Labels{}) },
			"Update":   func() error { return update(id, 0, same) },
			"Branch":   func() error { return a.Branch(t.Context(), id, 1, "new") },
			"to":       func() error { return a.Branch(t.Context(), "done", version, id) },
			"Delete":   func() error { return a.Delete(t.Context(), id) },
			"Get":      func() error { _, _, err := a.Get(t.Context(), id); return err },
			"Import": func() error {
				_, err := a.Import(t.Context(), id, []message.Message{message.User("x")}, None{}, agent.Labels{})
				return err
			},
		} {
			cases = append(cases, refusal{what + " of " + id, do, bad})
		}
	}
	was := everything(t, st, "support", "new")
	for _, c := range cases {
		err := c.do()
		refused := errors.Is(err, c.want)
		if c.want == nil {
			in := new(orchestrator.InputError)
			refused = errors.As(err, &in)
		}
		if !refused {
			t.Errorf("%.60q: %v, want %v", c.what, err, c.want)
		}
		if now := everything(t, st, "support", "new"); now != was {
			t.Errorf("%.60q: stored is now %s\nbefore %s", c.what, now, was)
			was = now
		}
	}
}
