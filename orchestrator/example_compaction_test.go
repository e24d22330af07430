package orchestrator_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The conversation belongs to the program. Once three turns are not summarized, the older two of them become one
// message. After a crash the same range comes again, under the same id.
func ExampleCompaction() {
	type State struct{ Reply string }
	var conversation []message.Message // it stands for a table
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "chat",
		Intents: orchestrator.Intents[State]{"reply": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Reply = "a reply to " + t.Input.Text
			fmt.Println(t.Input.Text, "finds", len(t.History), "messages")
			return nil
		}}},
		Deliver: func(_ context.Context, r *orchestrator.Result[State]) error {
			if n := len(conversation); n > 0 && conversation[n-1].Turn == r.Turn {
				return nil // it comes at least once
			}
			for _, m := range []message.Message{message.User(r.Input.Text), message.Assistant(r.State.Reply)} {
				m.Turn = r.Turn
				conversation = append(conversation, m)
			}
			return nil
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		History: func(context.Context, string) ([]message.Message, error) { return slices.Clone(conversation), nil },
		Compaction: orchestrator.Compaction{After: 3, Keep: 1, Run: func(
			_ context.Context, r orchestrator.Range,
		) (orchestrator.Usage, error) {
			if conversation[0].ID == r.ID {
				return orchestrator.Usage{}, nil
			}
			summary := message.System(fmt.Sprintf("turns %d to %d in short", r.From, r.Through)) // a model writes it
			summary.ID, summary.Turn = r.ID, r.Through
			newer := slices.IndexFunc(conversation, func(m message.Message) bool { return m.Turn > r.Through })
			conversation = append([]message.Message{summary}, conversation[newer:]...)
			return orchestrator.Usage{Input: 900, Output: 40}, nil
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three", "four"} {
		if _, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: text}, nil); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(conversation[0].Blocks[0].Text)
	// Output:
	// one finds 0 messages
	// two finds 2 messages
	// three finds 4 messages
	// four finds 3 messages
	// turns 0 to 1 in short
}
