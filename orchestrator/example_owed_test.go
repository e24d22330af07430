package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The transcript of a bot lies in a database of its own, which is away for a while. No turn runs on a conversation with
// a hole in it.
func ExampleOptions_requireDelivered() {
	var transcript []string
	away := true
	deliver := func(_ context.Context, res *orchestrator.Result[string]) error {
		if away {
			return errors.New("the database is away")
		}
		transcript = append(transcript, res.Input.Text)
		return nil
	}
	reply := func(context.Context, *orchestrator.Turn[string]) error { return nil }
	bot, err := orchestrator.New(orchestrator.Definition[string]{
		Name: "shop", Intents: orchestrator.Intents[string]{"reply": {Run: reply}}, Deliver: deliver,
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), RequireDelivered: true})
	if err != nil {
		log.Fatal(err)
	}
	say := func(text string) error {
		_, err := bot.Execute(context.Background(), "s", orchestrator.Input{Text: text}, nil)
		return err
	}
	fmt.Println("first:", say("hello"))
	fmt.Println("second is refused:", errors.Is(say("are you there?"), orchestrator.ErrOwed))
	away = false
	fmt.Println("again:", say("are you there?"), transcript)
	// Output:
	// first: <nil>
	// second is refused: true
	// again: <nil> [hello are you there?]
}
