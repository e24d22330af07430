package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
)

// stored returns how many messages a transcript has.
func stored(t *testing.T, st transcript.Store, session string) (n int) {
	t.Helper()
	k := transcript.Key{Orchestrator: "support", Session: session}
	for _, err := range st.Read(t.Context(), k, []transcript.Span{{From: 1, Through: 1000}}) {
		switch {
		case err == nil:
			n++
		case !errors.Is(err, transcript.ErrDamaged): // it is not there
			t.Fatal(err)
		}
	}
	return n
}

// A turn that failed has left messages in the transcript. Whoever says the same again gets none of them. They are
// deleted a day later, and those that a kept state names stay.
func TestLitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, down := agent.InMemory(), true
		model := func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if down {
				return agent.Reply{}, errors.New("down")
			}
			return says(fmt.Sprint(len(r.Said), " seen"))
		}
		a := newAgent(t, agent.Definition[none]{Model: agent.ModelFunc(model)}, st)
		defer func() { _ = a.Bot().Shutdown(t.Context()) }()
		a.SetTail(1)

		in := orchestrator.Input{Text: "go", RequestID: "r1"}
		for range 3 {
			if o, err := a.Say(t.Context(), "s", in, nil); err == nil {
				t.Fatalf("settled: %+v", o)
			}
			time.Sleep(time.Minute)
		}
		down = false
		o, err := a.Say(t.Context(), "s", in, nil)
		settled(t, o, err)
		if got, want := told(t, a, "s"), "user go | assistant 1 seen"; got != want {
			t.Errorf("said %s, want %s", got, want)
		}
		if n := stored(t, st.Transcript, "s"); n != 4 {
			t.Errorf("%d messages are stored, want 4: one of each attempt", n)
		}
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{23 * time.Hour, 6}, {2 * time.Hour, 5}, {0, 7}} {
			time.Sleep(c.wait)
			say(t, a, "s", "more")
			if n := stored(t, st.Transcript, "s"); n != c.want {
				t.Errorf("%d messages are stored after %v, want %d", n, c.wait, c.want)
			}
		}
		want := "user go | assistant 1 seen | user more | assistant 3 seen | user more | assistant 5 seen | " +
			"user more | assistant 7 seen"
		if got := told(t, a, "s"); got != want {
			t.Errorf("said %s, want %s", got, want)
		}
	})
}
