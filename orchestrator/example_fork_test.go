package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A session goes on from an earlier turn in another way. The first session does not notice.
func ExampleOrchestrator_Fork() {
	type State struct{ Story []string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "storyteller",
		Intents: orchestrator.Intents[State]{"tell": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Story = append(t.State.Story, t.Input.Text)
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	tell := func(session, text string) {
		res, err := bot.Execute(ctx, session, orchestrator.Input{Text: text}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(session, res.Turn, res.State.Story)
	}
	tell("draft", "a ship")
	tell("draft", "a storm")
	if err := bot.Fork(ctx, "draft", 0, "other"); err != nil {
		log.Fatal(err)
	}
	tell("other", "a calm")
	tell("draft", "a rock")
	// Output:
	// draft 0 [a ship]
	// draft 1 [a ship a storm]
	// other 1 [a ship a calm]
	// draft 2 [a ship a storm a rock]
}

// One bot is a tool of another bot's model. A turn that is resumed makes the call of its first attempt again, under the
// same id, and gets the answer of the settled turn.
func ExampleOrchestrator_Tool() {
	type Refund struct{ Reply string }
	refunds, err := orchestrator.New(orchestrator.Definition[Refund]{
		Name: "refunds",
		Intents: orchestrator.Intents[Refund]{
			"refund": {Run: func(_ context.Context, t *orchestrator.Turn[Refund]) error {
				fmt.Println("refunding")
				t.State.Reply = "done: " + t.Input.Text
				return nil
			}},
		},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	tool := refunds.Tool(
		"refunds", "refunds an order", func(r *orchestrator.Result[Refund]) string { return r.State.Reply }, nil)

	type State struct{ Answer string }
	concierge, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "concierge",
		Intents: orchestrator.Intents[State]{
			"help": {Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
				for range 2 { // the model says the same twice
					answer, err := tool.Call(ctx, "call_1", json.RawMessage(`{"input": "refund A-1042"}`))
					if err != nil {
						return err
					}
					t.State.Answer = answer
				}
				return nil
			}},
		},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := concierge.Execute(
		context.Background(), "customer-7", orchestrator.Input{Text: "I want my money back"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Answer)
	// Output:
	// refunding
	// done: refund A-1042
}
