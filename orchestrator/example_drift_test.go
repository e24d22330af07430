package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A deploy renames an intent and a field. Sessions of the old version are refused, and not touched, until Migrate says
// how to read them.
func ExampleDefinition_migrate() {
	type Old struct{ Order string }
	type New struct{ OrderID string }
	store := new(checkpoint.Memory)
	before := orchestrator.Definition[Old]{
		Name: "support", Version: "1",
		Intents: orchestrator.Intents[Old]{"order": {Run: func(_ context.Context, t *orchestrator.Turn[Old]) error {
			t.State.Order = t.Input.Text
			return nil
		}}},
	}
	if _, err := sayTo(before, store, "A-1042"); err != nil {
		log.Fatal(err)
	}

	after := orchestrator.Definition[New]{
		Name: "support", Version: "2",
		Intents: orchestrator.Intents[New]{
			"find": {Run: func(context.Context, *orchestrator.Turn[New]) error { return nil }},
		},
	}
	_, err := sayTo(after, store, "where is it?")
	_, drift := errors.AsType[*orchestrator.DriftError](err)
	fmt.Println("drift:", drift)

	after.Migrate = func(_ context.Context, cp checkpoint.Checkpoint) (New, error) {
		var old Old
		err := json.Unmarshal(cp.State, &old)
		return New{OrderID: old.Order}, err
	}
	res, err := sayTo(after, store, "where is it?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Turn, res.State.OrderID)
	// Output:
	// drift: true
	// 1 A-1042
}

// sayTo starts a process of a bot, and says something to it.
func sayTo[S any](
	def orchestrator.Definition[S], store checkpoint.Store, text string,
) (*orchestrator.Result[S], error) {
	bot, err := orchestrator.New(def, store, nil)
	if err != nil {
		return nil, err
	}
	return bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: text}, nil)
}
