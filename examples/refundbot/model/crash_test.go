package model_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// A state is that of a bot that sorts and answers.
type state struct {
	Intent model.Intent
	Reply  string
}

type (
	botTurn = orchestrator.Turn[state]
	result  = orchestrator.Result[state]
)

// sorting is a bot that asks the model for what a text is about, and then for a reply.
func sorting(m model.Model) orchestrator.Definition[state] {
	classify := func(ctx context.Context, t *botTurn) (err error) {
		var used model.Usage
		t.State.Intent, used, err = m.Classify(oncehttp.With(ctx, t, "model"), t.History, t.Input.Text)
		t.AddUsage(used)
		return err
	}
	compose := func(ctx context.Context, t *botTurn) (err error) {
		var used model.Usage
		t.State.Reply, used, err = m.Compose(oncehttp.With(ctx, t, "model"), model.Prompt{
			Text: t.Input.Text, Category: t.State.Intent.Category, Order: t.State.Intent.Order,
			Facts: []string{"The refund for order " + t.State.Intent.Order + " is paid."},
		}, t.Emit)
		t.AddUsage(used)
		return err
	}
	return orchestrator.Definition[state]{
		Name: "sorting", Iterate: true, First: "classify",
		Intents: orchestrator.Intents[state]{
			"classify": {Run: classify, Next: orchestrator.To("compose")},
			"compose":  {Run: compose, Next: orchestrator.End},
		},
	}
}

const (
	question = "I want a refund for A-1042"
	reply    = "Thank you for your patience. The refund for order A-1042 is paid."
)

// The process dies at a step. The model is asked once for each reply that was recorded, and the turn costs the same.
func TestCrashAsksNothingTwice(t *testing.T) {
	_, clean := serve(t)
	var w orchestratortest.World
	want := settled(t, orchestratortest.Start(&w, sorting(clean), nil))
	for _, c := range []struct {
		step string
		n    int
	}{
		{"ledger.Record", 1},
		{"classify", 1},
		{"snapshot.Save", 1},
		{"ledger.Record", 2},
		{"compose", 1},
		{"checkpoint.Append", 1},
	} {
		t.Run(fmt.Sprint(c.step, c.n), func(t *testing.T) {
			server, m := serve(t)
			var w orchestratortest.World
			first := orchestratortest.Start(&w, sorting(m), nil)
			first.DieAfter(c.step, c.n)
			_, _ = first.Bot.Execute(t.Context(), "s", orchestrator.Input{RequestID: "r", Text: question}, nil)
			if err := first.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := orchestratortest.Start(&w, sorting(m), nil)
			got := settled(t, second)
			if got.State.Reply != reply || got.Usage != want.Usage {
				t.Errorf("%q for %+v, want %+v", got.State.Reply, got.Usage, want.Usage)
			}
			if n := len(server.Asked()); n != 2 {
				t.Errorf("the model was asked %d times, want 2", n)
			}
		})
	}
}

// settled asks the question, as a client that repeats it does.
func settled(t *testing.T, p *orchestratortest.Process[state]) *result {
	t.Helper()
	res, err := p.Bot.Execute(t.Context(), "s", orchestrator.Input{RequestID: "r", Text: question}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A compaction has no turn. Its call is made, and not recorded.
func TestSummarizeWithoutTurn(t *testing.T) {
	server, m := serve(t)
	got, _, err := m.Summarize(t.Context(), []message.Message{message.User("refund A-1042")})
	if err != nil || got == "" || len(server.Asked()) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}
