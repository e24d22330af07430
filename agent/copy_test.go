package agent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A copying store counts the copies, and how many messages the largest was asked for.
type copying struct {
	transcript.Store
	copies int
	most   int64
}

func (c *copying) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	c.copies, c.most = c.copies+1, max(c.most, transcript.Count(spans))
	return c.Store.Copy(ctx, from, to, spans)
}

// A branch of a long session is copied in parts, and has all of it.
func TestCopyInParts(t *testing.T) {
	st := agent.InMemory()
	c := &copying{Store: st.Transcript}
	st.Transcript = c
	a := newAgent(t, agent.Definition[none]{Model: agent.ModelFunc(nil)}, st)
	key := func(session string) transcript.Key { return transcript.Key{Orchestrator: "support", Session: session} }
	var said []transcript.Span
	for i := range 30 {
		msgs := make([]message.Message, 300)
		for n := range msgs {
			msgs[n] = message.User(fmt.Sprint(i, n))
		}
		span, err := st.Transcript.Append(t.Context(), key("s"), fmt.Sprint(i), msgs)
		if err != nil {
			t.Fatal(err)
		}
		if i%10 > 0 {
			said = transcript.Join(said, span)
		}
	}
	for range 2 { // a repeat does nothing
		if err := a.Copy(t.Context(), "s", "t", said); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range st.Transcript.Read(t.Context(), key("t"), said) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 27*300 || c.copies != 4 || c.most != 4096 {
		t.Errorf("%d messages in %d copies of up to %d", n, c.copies, c.most)
	}
	if err := a.Copy(t.Context(), "s", "u", nil); err != nil {
		t.Errorf("nothing is copied: %v", err)
	}
}

// The entry of an iteration is found again if the tail is the same, and no other is taken for it.
func TestEntryID(t *testing.T) {
	id := func(iteration int, args string) string {
		said := message.Message{Blocks: []message.Block{call("c", "lookup", args)}}
		id, err := agent.EntryID("run", "try", iteration, []message.Message{said})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	const one = `{"order":"A","cents":1}`
	if a, b := id(4, one), id(4, `{"cents": 1.0, "order": "A"}`); a != b {
		t.Errorf("one tail has the ids %s and %s", a, b)
	}
	for _, other := range []string{id(5, one), id(4, `{"order":"A","cents":2}`)} {
		if other == id(4, one) {
			t.Errorf("another tail has the same id %s", other)
		}
	}
}
