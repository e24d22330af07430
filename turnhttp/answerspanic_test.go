package turnhttp_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An Options.Answer that panics ends no process: Answers tells OnError, and goes on.
func TestAnswersPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.bot(t, w.definition(), nil)
		if _, err := bot.Execute(t.Context(), "s", orchestrator.Input{Text: "ask q 5"}, nil); err != nil {
			t.Fatal(err)
		}
		it := inbox.Item{Kind: inbox.Answer, ID: "q", By: "ann", Data: []byte(`"answer yes"`)}
		it.Orchestrator, it.Session = "bot", "s"
		if _, err := w.answers.Post(t.Context(), it); err != nil {
			t.Fatal(err)
		}
		o := w.options()
		answer, calls := o.Answer, 0
		o.Answer = func(q approval.Question, a approval.Answer) (orchestrator.Input, error) {
			if calls++; calls == 1 {
				panic(secret)
			}
			return answer(q, a)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := o.Desk(bot).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}
