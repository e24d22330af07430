package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Begin recalls and Deliver remembers. The recalled memories are part of the turn's state, so that they are the same
// after a resume. Deliver remembers each turn at least once, under an id that is the same each time, so that the memory
// has it once. The session is the scope: Bob does not hear what Ann has said.
func ExampleDefinition_memory() {
	type State struct{ Recalled []string }
	memory := make(map[string]map[string]string) // by scope and id; it stands for a vector store
	told := 0
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "friend",
		Begin: func(_ context.Context, t *orchestrator.Turn[State]) error {
			// A real memory is asked for what is close to t.Input.Text.
			t.State.Recalled = slices.Sorted(maps.Values(memory[t.Session]))
			return nil
		},
		Intents: orchestrator.Intents[State]{
			"answer": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				fmt.Printf("%s says %q; recalled: %q\n", t.Session, t.Input.Text, t.State.Recalled)
				return nil
			}},
		},
		Deliver: func(_ context.Context, r *orchestrator.Result[State]) error {
			if memory[r.Session] == nil {
				memory[r.Session] = make(map[string]string)
			}
			memory[r.Session][r.RunID] = r.Input.Text
			if told++; told == 1 {
				return errors.New("timeout") // the memory has it, but the reply was lost: Deliver runs again
			}
			return nil
		},
	}, new(checkpoint.Memory), &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	for _, said := range [][2]string{{"ann", "I like tea"}, {"ann", "what do I like?"}, {"bob", "what do I like?"}} {
		if _, err := bot.Execute(context.Background(), said[0], orchestrator.Input{Text: said[1]}, nil); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("told", told, "times,", len(memory["ann"])+len(memory["bob"]), "memories")
	// Output:
	// ann says "I like tea"; recalled: []
	// ann says "what do I like?"; recalled: ["I like tea"]
	// bob says "what do I like?"; recalled: []
	// told 4 times, 3 memories
}
