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

// A deploy renames a field. Sessions of the old version are refused, and not touched, until Migrate says how to read
// them. Strict refuses what still later versions write.
func ExampleDefinition_migrate() {
	type Old struct{ Order string }
	type New struct{ OrderID string }
	store := new(checkpoint.Memory)
	before := noting("1", func(s *Old, text string) { s.Order = text })
	if _, err := sayTo(before, store, "A-1042"); err != nil {
		log.Fatal(err)
	}

	after := noting("2", func(*New, string) {})
	_, err := sayTo(after, store, "where is it?")
	if drift, ok := errors.AsType[*orchestrator.DriftError](err); ok {
		fmt.Println("drift:", drift.Members)
	}

	after.Migrate = func(ctx context.Context, cp checkpoint.Checkpoint) (New, error) {
		if cp.Version != "1" {
			return orchestrator.Strict[New](ctx, cp)
		}
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
	// drift: [Order]
	// 1 A-1042
}

// A deploy removes a field on purpose. Processes of both versions serve the session: the new one drops the note.
func ExampleLenient() {
	type Old struct{ Order, Note string }
	type New struct{ Order string }
	store := new(checkpoint.Memory)
	before := noting("", func(s *Old, text string) { s.Order, s.Note = text, "calls at night" })
	if _, err := sayTo(before, store, "A-1042"); err != nil {
		log.Fatal(err)
	}

	after := noting("", func(*New, string) {})
	after.Migrate = orchestrator.Lenient[New]
	res, err := sayTo(after, store, "where is it?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Turn, res.State.Order)
	// Output: 1 A-1042
}

// Two processes serve the same sessions while a deploy adds a field. The old process refuses what it would lose. The
// caller sends the input to the new process.
func ExampleDriftError() {
	type Old struct{ Order string }
	type New struct{ Order, Refund string }
	store := new(checkpoint.Memory)
	old := noting("", func(s *Old, text string) { s.Order = text })
	added := noting("", func(s *New, text string) { s.Refund = text })
	say := func(text string) {
		res, err := sayTo(old, store, text)
		if err == nil {
			fmt.Println("old:", res.State)
			return
		}
		drift, ok := errors.AsType[*orchestrator.DriftError](err)
		if !ok {
			log.Fatal(err)
		}
		newer, err := sayTo(added, store, text)
		fmt.Println("old would lose", drift.Members, "new:", newer.State, err)
	}
	say("A-1042")
	if _, err := sayTo(added, store, "9.50"); err != nil {
		log.Fatal(err)
	}
	say("12.00")
	// Output:
	// old: {A-1042}
	// old would lose [Refund] new: {A-1042 12.00} <nil>
}

// A row of a version that Migrate does not know was written by a later definition.
func ExampleStrict() {
	type State struct{ Order string }
	cp := checkpoint.Checkpoint{Version: "3", State: json.RawMessage(`{"Order":"A-1042","Refund":"9.50"}`)}
	_, err := orchestrator.Strict[State](context.Background(), cp)
	if drift, ok := errors.AsType[*orchestrator.DriftError](err); ok {
		fmt.Println("left to another process, for", drift.Members)
	}
	// Output: left to another process, for [Refund]
}

// noting returns a bot with one intent.
func noting[S any](version string, note func(s *S, text string)) orchestrator.Definition[S] {
	return orchestrator.Definition[S]{
		Name: "support", Version: version,
		Intents: orchestrator.Intents[S]{"note": {Run: func(_ context.Context, t *orchestrator.Turn[S]) error {
			note(&t.State, t.Input.Text)
			return nil
		}}},
	}
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
