package agent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// counted counts the messages that are read.
type counted struct {
	transcript.Store
	read atomic.Int64
}

func (c *counted) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	return func(yield func(message.Message, error) bool) {
		for m, err := range c.Store.Read(ctx, k, spans) {
			c.read.Add(1)
			if !yield(m, err) {
				return
			}
		}
	}
}

// echo returns an agent that says how many messages it was shown, and what the first one was. It scribbles on them.
func echo(t *testing.T, st agent.Stores, window int) *agent.Agent[none] {
	model := func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		return says(fmt.Sprintf("%d, first %s", len(r.Said), head(r.Said[0])))
	}
	scribble := func(_ context.Context, _ *agent.State[none], r *agent.Request) error {
		for i := range r.Said {
			r.Said[i].Blocks[0].Text += "."
		}
		return nil
	}
	a := newAgent(t, agent.Definition[none]{Model: agent.ModelFunc(model), Prepare: scribble, Window: window}, st)
	a.SetTail(1)
	return a
}

func head(m message.Message) string { return m.Blocks[0].Text[:min(len(m.Blocks[0].Text), 10)] }

// A message is decoded once in a process, and what a program does to those that a model is shown changes none.
func TestCache(t *testing.T) {
	st := agent.InMemory()
	store := &counted{Store: st.Transcript}
	st.Transcript = store
	a := echo(t, st, 0)
	for i := range 20 {
		want := fmt.Sprintf("%d, first m0.", 2*i+1)
		if got := say(t, a, "s", fmt.Sprint("m", i)).Text; got != want {
			t.Errorf("turn %d: %q, want %q", i, got, want)
		}
	}
	if n := store.read.Load(); n != 0 {
		t.Errorf("%d messages were read that the process has written", n)
	}
	other := echo(t, st, 0) // another process
	for range 3 {
		say(t, other, "s", "more")
	}
	if n := store.read.Load(); n > 42 {
		t.Errorf("%d messages were read, of 42", n)
	}
	if got, want := say(t, a, "s", "back").Text, "47, first m0."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A session of the same name is another one, also for a process that has not deleted it.
	if err := other.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	say(t, other, "s", "anew")
	say(t, other, "s", "two")
	if got, want := say(t, a, "s", "three").Text, "5, first anew."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := a.Branch(t.Context(), "s", 2, "branch"); err != nil {
		t.Fatal(err)
	}
	if got, want := say(t, a, "branch", "aside").Text, "5, first anew."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The cache is bounded: over all sessions, and of a session by what its model is shown.
func TestCacheBound(t *testing.T) {
	st := agent.InMemory()
	a := echo(t, st, 4)
	a.SetCache(640 << 10)
	text := strings.Repeat("x", 1<<10)
	for i := range 400 {
		say(t, a, fmt.Sprint("s", i%8), text)
		if n := a.Cached(); n > 64<<10 {
			t.Fatalf("the cache has %d bytes after %d turns", n, i)
		}
	}
	whole := echo(t, st, 0)
	whole.SetCache(640 << 10)
	for i := range 8 {
		say(t, whole, fmt.Sprint("s", i), "all of it")
		if n := whole.Cached(); n > 640<<10 {
			t.Fatalf("the cache has %d bytes", n)
		}
	}
	if n := whole.Cached(); n < 320<<10 {
		t.Errorf("the cache has %d bytes: it gave up more than it had to", n)
	}
}
