package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnlog"
)

// phase is what the agent records of a reply, or of a result.
type phase struct {
	Phase    string            `json:"-"`
	Messages []message.Message `json:"messages"`
	Respond  json.RawMessage   `json:"respond"`
	Message  json.RawMessage   `json:"message"`
	Slot     string            `json:"slotKey"`
	Effect   string            `json:"effect"`
	Cut      string            `json:"cut"`
}

// phases returns what was recorded of a session, oldest first.
func phases(t *testing.T, log *turnlog.Memory, session string) (all []phase) {
	t.Helper()
	var turns []turnlog.Entry
	for turn, err := range log.Turns(t.Context(), turnlog.Query{Session: session}) {
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn.First)
	}
	slices.SortFunc(turns, func(a, b turnlog.Entry) int { return a.Turn - b.Turn })
	for _, turn := range turns {
		entries, err := log.Restore(t.Context(), turn.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			p := phase{Phase: e.Phase}
			if e.Phase == turnlog.LLMComplete || e.Phase == turnlog.ToolReceived {
				if err := json.Unmarshal(e.State, &p); err != nil {
					t.Error(err)
				}
			}
			all = append(all, p)
		}
	}
	return all
}

func (p phase) reply(t *testing.T) (m message.Message) {
	t.Helper()
	if err := json.Unmarshal(p.Respond, &m); err != nil {
		t.Error(err)
	}
	return m
}

// The replies in the log, each with what was said since the one before, are all that was said: also if messages move to
// the transcript, if a turn waits for answers, and if a model fails in the middle. A result has an entry of its own,
// and the effect that it is of. B24, B26.
func TestTurnLogWhole(t *testing.T) {
	for _, tail := range []int{1, 400, 1 << 20} {
		t.Run(fmt.Sprint(tail), func(t *testing.T) {
			st, log, w := agent.InMemory(), new(turnlog.Memory), new(shop)
			st.TurnLog = log
			d := w.Definition()
			asked, model := 0, d.Model
			d.Model = step(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
				if asked++; asked == 2 {
					return agent.Reply{}, errModel
				}
				return model.Reply(ctx, r, token)
			})
			a := newAgent(t, d, st)
			a.SetTail(tail)
			say(t, a, "s", "refund A1")
			o, err := a.Answer(t.Context(), "s", "c2", agent.Done("photo"))
			settled(t, o, err)
			o, err = a.Answer(t.Context(), "s", "c3", agent.Approve("desk"))
			if settled(t, o, err); o.Status != agent.Failed {
				t.Fatalf("%+v", o)
			}
			o, err = a.Continue(t.Context(), "s", nil)
			if settled(t, o, err); o.Status != agent.Completed {
				t.Fatalf("%+v", o)
			}
			say(t, a, "s", "thanks")
			o, err = a.Drop(t.Context(), "s")
			settled(t, o, err)
			a = newAgent(t, agent.Definition[none]{Model: replies("bye")}, st)
			say(t, a, "s", "bye")

			var all []message.Message
			got, results := 0, ""
			for _, p := range phases(t, log, "s") {
				switch p.Phase {
				case turnlog.LLMComplete:
					got++
					all = append(append(all, p.Messages...), p.reply(t))
				case turnlog.ToolReceived:
					var b message.Block
					if err := json.Unmarshal(p.Message, &b); err != nil {
						t.Error(err)
					}
					if r, ok := b.Result(); !ok || r.CallID != p.Slot {
						t.Errorf("%+v in slot %s", b, p.Slot)
					}
					results += fmt.Sprint(p.Slot, " ", b.Text, " ", p.Effect != "", "; ")
				}
			}
			if want := told(t, a, "s"); print(all) != want || got != 4 {
				t.Errorf("%d replies are recorded:\n%s\nsaid:\n%s", got, print(all), want)
			}
			if want := "c1 found false; c2 photo false; c3 paid true; "; !strings.HasPrefix(results, want) {
				t.Errorf("recorded the results %s, want %s", results, want)
			}
		})
	}
}

// Only tools record that a call was dispatched. B25.
func TestDispatched(t *testing.T) {
	phases := map[bool]string{
		false: "started llm-complete tool-received llm-complete settled ",
		true:  "started llm-complete tool-dispatched tool-received llm-complete settled ",
	}
	for dispatched, want := range phases {
		st, log := agent.InMemory(), new(turnlog.Memory)
		st.TurnLog = log
		a := newAgent(t, agent.Definition[none]{
			Model: answers(call("c", "lookup", `{"order":"A"}`)),
			Tools: []agent.Tool{lookup(func(ctx context.Context, _ refundArgs) (string, error) {
				if dispatched {
					return "x", agent.From(ctx).Record(ctx, turnlog.ToolDispatched, map[string]string{"slotKey": "c"})
				}
				return "x", nil
			})},
		}, st)
		say(t, a, "s", "go")
		got := ""
		for turn, err := range log.Turns(t.Context(), turnlog.Query{}) {
			entries, _ := log.Restore(t.Context(), turn.First.Run)
			for _, e := range entries {
				got += e.Phase + " "
			}
			if err != nil || got != want {
				t.Errorf("recorded %q, want %q", got, want)
			}
		}
	}
}

// Results as large as they may be reach the ledger and the log, whatever they are made of. What an entry of the log has
// no room for is left out of it, and the turn goes on: it has paid.
func TestTurnLogLarge(t *testing.T) {
	for _, c := range []struct {
		part  string
		calls int
		cut   string
	}{{"a", 1, ""}, {"\x01", 1, ""}, {"<", 1, ""}, {"\n", 2, "left out from messages on"}} {
		st, log := agent.InMemory(), new(turnlog.Memory)
		st.TurnLog = log
		calls := []message.Block{call("c1", "refund", `{"order":"A"}`), call("c2", "refund", `{"order":"B"}`)}
		a := newAgent(t, agent.Definition[none]{
			Tools: []agent.Tool{agent.Effect[refundArgs, string]{
				Name: "refund", Run: func(context.Context, string, refundArgs) (string, error) {
					return strings.Repeat(c.part, 1<<20), nil
				},
			}.Tool()},
			Model: answers(calls[:c.calls]...),
		}, st)
		if o := say(t, a, "s", "go"); o.Status != agent.Completed {
			t.Fatalf("%q: %+v", c.part, o)
		}
		cut, results := "", 0
		for _, p := range phases(t, log, "s") {
			cut += p.Cut
			if p.Phase == turnlog.ToolReceived && len(p.Message) > 1<<19 {
				results++
			}
			if p.Phase == turnlog.LLMComplete && len(p.Respond) == 0 {
				t.Errorf("%q: a reply is left out: %s", c.part, p.Cut)
			}
		}
		if (cut != "") != (c.cut != "") || !strings.Contains(cut, c.cut) || results != c.calls {
			t.Errorf("%q: %d results are recorded; cut: %q, want %q", c.part, results, cut, c.cut)
		}
	}
}

// A tool that fails has an error as its result, the effect has failed, and the model goes on. K23.
func TestToolFails(t *testing.T) {
	for _, tool := range []agent.Tool{
		lookup(func(context.Context, refundArgs) (string, error) { return "", errModel }),
		agent.Effect[refundArgs, string]{
			Name: "lookup", Run: func(context.Context, string, refundArgs) (string, error) {
				return "", ledger.NotDone(errModel)
			},
		}.Tool(),
	} {
		st := agent.InMemory()
		a := newAgent(t, agent.Definition[none]{
			Model: answers(call("c", "lookup", `{"order":"A"}`)), Tools: []agent.Tool{tool},
		}, st)
		if o := say(t, a, "s", "go"); o.Status != agent.Completed || o.Text != "500" {
			t.Errorf("%+v", o)
		}
		for m, err := range a.Messages(t.Context(), "s") {
			if r, ok := m.Blocks[0].Result(); err != nil || ok && !r.IsError {
				t.Errorf("%+v, %v", m, err)
			}
		}
		for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{}) {
			if err != nil || e.State != ledger.Failed {
				t.Errorf("the effect is %s, %v", e.State, err)
			}
		}
	}
}
