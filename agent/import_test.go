package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A brokenStore is away while it is broken.
type brokenStore struct {
	checkpoint.Store
	broken bool
}

func (s *brokenStore) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	if s.broken {
		return c, errors.New("connection lost")
	}
	return s.Store.Claim(ctx, k, r)
}

// A session of another program goes on, healed. An import that was cut off is repeated, and a repeat does nothing. An
// import never changes a session that exists.
func TestImport(t *testing.T) {
	st := agent.InMemory()
	broken := &brokenStore{st.Checkpoints, true}
	st.Checkpoints = broken
	model := agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		if err := agent.Valid(r.Said, nil); err != nil {
			t.Error(err)
		}
		return says("after "+last(r).Blocks[0].Text, call("c1", "nosuch", `{}`))
	})
	a := newAgent(t, agent.Definition[seen]{Model: model, MaxSteps: 1}, st)
	said := noted(`u hi / a c1=run{} / t c1> ok + see you` + strings.Repeat(" / a more", 600))
	custom, labels := seen{Seen: map[string]bool{"a": true}}, agent.Labels{User: "ann"}
	for i, want := range []string{"connection lost", "", ""} {
		faults, err := a.Import(t.Context(), "s", said, custom, labels)
		if len(faults) != 1 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, %v", i, faults, err)
		}
		broken.broken = false
	}
	s, version := get(t, a, "s")
	if version != 1 || s.Status != agent.Completed || !s.Custom.Seen["a"] || s.User != "ann" ||
		transcript.Count(s.Said) != 604 || s.Tail != nil {
		t.Errorf("version %d, %+v", version, s)
	}
	say(t, a, "s", "go on")
	if got := told(t, a, "s"); strings.Count(got, "c1: ") != 1 || !strings.Contains(got, "assistant after go on") {
		t.Error(got)
	}
	if _, err := a.Import(t.Context(), "s", said, custom, labels); err != nil {
		t.Error(err)
	}
	if _, err := a.Import(t.Context(), "s", said[:1], custom, labels); !errors.Is(err, agent.ErrExists) {
		t.Error(err)
	}
	if _, err := a.Import(t.Context(), "none", noted("t c1> ok"), custom, labels); err == nil {
		t.Error("a session of nothing")
	}

	if _, err := a.Import(t.Context(), "asked", []message.Message{message.User("hi\x00")}, custom, labels); err != nil {
		t.Fatal(err)
	}
	o, err := a.Continue(t.Context(), "asked", nil)
	if settled(t, o, err); o.Text != "after hi" {
		t.Errorf("%+v", o)
	}
}
