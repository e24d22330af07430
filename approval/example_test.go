package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A refund is the state of a bot that asks before it pays.
type refund struct {
	Asks  string // the id of the question
	Cents int
	Paid  bool
}

// pay asks for a refund, and pays it once a person has approved it.
func pay(_ context.Context, t *orchestrator.Turn[refund]) error {
	switch s := &t.State; {
	case t.Input.Origin == orchestrator.FromAnswer && s.Asks != "": // only then a person has approved it
		s.Paid, s.Asks = string(t.Input.Data) == "true", ""
	case s.Asks == "":
		s.Asks, s.Cents = "refund-1", 1200 // approval.NewID() is one that nobody can guess
	}
	return nil
}

// deskOf returns the desk of a bot.
func deskOf(bot *orchestrator.Orchestrator[refund], answers inbox.Store) *approval.Desk[refund] {
	return &approval.Desk[refund]{
		Bot: bot, Inbox: answers,
		Questions: func(s *refund) []approval.Question {
			if s.Asks == "" {
				return nil
			}
			return []approval.Question{{ID: s.Asks, Shown: map[string]int{"cents": s.Cents}}}
		},
		Answer: func(_ approval.Question, a approval.Answer) (in orchestrator.Input, err error) {
			var yes bool
			if err := json.Unmarshal(a.Data, &yes); err != nil {
				return in, err
			}
			return orchestrator.Input{Data: a.Data}, nil
		},
	}
}

// A console shows what a bot asks. Ann answers, and Bob is too late.
func Example() {
	bot, err := orchestrator.New(orchestrator.Definition[refund]{
		Name: "refunds", Intents: orchestrator.Intents[refund]{"pay": {Run: pay}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := bot.Execute(ctx, "s-1", orchestrator.Input{Text: "my money, please"}, nil); err != nil {
		log.Fatal(err)
	}
	desk := deskOf(bot, new(inbox.Memory)) // and desk.Run in the background
	asked, err := desk.Asked(ctx, "s-1")
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range asked {
		fmt.Printf("%s: %s\n", q.ID, q.JSON)
	}
	answer := approval.Answer{Data: json.RawMessage("true"), Sum: asked[0].Sum, By: "ann"}
	res, err := desk.Execute(ctx, "s-1", asked[0].ID, answer)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("paid: %t, by %s\n", res.State.Paid, res.Input.By)

	answer.By = "bob"
	_, err = desk.Execute(ctx, "s-1", asked[0].ID, answer)
	fmt.Println("too late:", errors.Is(err, approval.ErrAnswered))
	// Output:
	// refund-1: {"cents":1200}
	// paid: true, by ann
	// too late: true
}
