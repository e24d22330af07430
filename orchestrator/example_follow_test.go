package orchestrator_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// A page that was loaded again shows what the turn has said since the last event that the page had seen. The process of
// the page need not be the process of the turn.
func ExampleOrchestrator_Follow() {
	type State struct{ Reply string }
	ctx := context.Background()
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "poet",
		Intents: orchestrator.Intents[State]{"write": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			for word := range strings.FieldsSeq("roses are red") {
				t.Emit(word)
				t.State.Reply += word + " "
			}
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Stream: new(stream.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "session-1", orchestrator.Input{Text: "a poem, please"}, nil); err != nil {
		log.Fatal(err)
	}
	if err := bot.Shutdown(ctx); err != nil { // its last events are kept by now
		log.Fatal(err)
	}
	for shown, err := range bot.Follow(ctx, "session-1", 4) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s %q\n", shown.Number, shown.Event.Kind, shown.Event.Delta)
	}
	// Output:
	// 5 token "are"
	// 6 token "red"
	// 7 intent.ended ""
	// 8 turn.settled ""
}
