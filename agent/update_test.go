package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Messages that no kept turn names are deleted, a day later. A branch has them all the same.
func TestShortenedAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := agent.InMemory()
		d := agent.Definition[none]{Name: "support", Model: agent.ModelFunc(
			func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
				return says(last(r).Blocks[0].Text)
			},
		)}
		a, err := agent.New(d, st, &orchestrator.Options{KeepSnapshots: 4, Logger: quiet.Logger})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Bot().Shutdown(t.Context()) }()
		said := noted("u hi" + strings.Repeat(" / a ho / u hi", 499) + " / a end")
		if _, err := a.Import(t.Context(), "s", said, none{}, agent.Labels{}); err != nil {
			t.Fatal(err)
		}
		_, version := get(t, a, "s")
		if err := a.Branch(t.Context(), "s", version, "b"); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1000, 400, 999, 399} {
			agenttest.KeepFirst(t, a, "s", n)
		}
		a.SetTail(1)
		say(t, a, "s", "more")
		time.Sleep(25 * time.Hour)
		for range 5 { // of which four are kept
			say(t, a, "s", "more")
		}
		if n := stored(t, st.Transcript, "s"); n > 640 { // imported in entries of 256
			t.Errorf("%d messages are stored", n)
		}
		if got := told(t, a, "b"); len(strings.Split(got, " | ")) != 1000 || !strings.HasSuffix(got, "assistant end") {
			t.Error(got)
		}
	})
}
