package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
)

// A process dies while it asks the model. The next one asks once more, and runs no tool again. What only reads is in no
// ledger, and runs for each call.
func TestModelDies(t *testing.T) {
	st, in := agent.InMemory(), orchestrator.Input{RequestID: "r", Text: "go"}
	process, die := context.WithCancel(t.Context())
	var asked, looked, paid atomic.Int32
	d := agent.Definition[none]{
		Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			switch asked.Add(1) {
			case 1:
				return says("", call("a", "lookup", `{"order":"A"}`), call("b", "lookup", `{"order":"A"}`),
					call("c", "refund", `{"order":"A"}`))
			case 2:
				die()
				return agent.Reply{}, ctx.Err()
			}
			return says("done")
		}),
		Tools: []agent.Tool{
			lookup(func(context.Context, refundArgs) (string, error) { looked.Add(1); return "x", nil }),
			pay(&paid, ledger.Ask).Tool(),
		},
	}
	if _, err := newAgent(t, d, st).Say(process, "s", in, nil); err == nil {
		t.Fatal("the process did not die")
	}
	a := newAgent(t, d, st)
	o, err := a.Say(t.Context(), "s", in, nil)
	if settled(t, o, err); o.Text != "done" || asked.Load() != 3 || looked.Load() != 2 || paid.Load() != 1 {
		t.Errorf("%+v: asked %d times, looked %d times, paid %d times", o, asked.Load(), looked.Load(), paid.Load())
	}
	for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{}) {
		if err != nil || e.Name != "refund" {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// A countingStore counts the bytes of messages that are appended.
type countingStore struct {
	transcript.Store
	bytes int
}

func (s *countingStore) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	doc, err := json.Marshal(msgs)
	s.bytes += len(doc)
	if err != nil {
		return transcript.Span{}, err
	}
	return s.Store.Append(ctx, k, id, msgs)
}

// Each message is appended once, and a state does not grow with what was said.
func TestLinear(t *testing.T) {
	st := agent.InMemory()
	count := &countingStore{Store: st.Transcript}
	st.Transcript = count
	text := strings.Repeat("x", 500)
	a := newAgent(t, agent.Definition[none]{
		Window: 4,
		Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			return says(text)
		}),
	}, st)
	for i := range 200 {
		say(t, a, "s", text)
		if i == 99 {
			count.bytes = 0
		}
	}
	s, _ := get(t, a, "s")
	state, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if count.bytes > 200*700+16<<10 || len(state) > 32<<10 || len(s.Said) != 1 {
		t.Errorf("100 turns append %d bytes, and the state has %d", count.bytes, len(state))
	}
}
