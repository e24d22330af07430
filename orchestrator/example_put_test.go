package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A program makes a session, and later changes what it has read. Another change has come between.
func ExampleOrchestrator_Put() {
	type Budget struct{ Cents int }
	type Turn = orchestrator.Turn[Budget]
	ctx := context.Background()
	bot, err := orchestrator.New(orchestrator.Definition[Budget]{
		Name: "shopper",
		Intents: orchestrator.Intents[Budget]{
			"spend": {Run: func(_ context.Context, t *Turn) error { t.State.Cents -= 300; return nil }},
		},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	open := orchestrator.Input{Kind: "open"}
	for range 2 {
		_, err := bot.Put(ctx, "s", orchestrator.NoTurns, open, func(_ context.Context, t *Turn) error {
			t.State.Cents = 1000
			return nil
		}, nil)
		fmt.Println("opened:", err == nil)
	}
	read, err := bot.Turn(ctx, "s", checkpoint.Newest)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "s", orchestrator.Input{Kind: "say", Text: "buy a pen"}, nil); err != nil {
		log.Fatal(err)
	}
	double := func(_ context.Context, t *Turn) error { t.State.Cents *= 2; return nil }
	_, err = bot.Put(ctx, "s", read.Turn+1, orchestrator.Input{Kind: "double"}, double, nil)
	if stale, ok := errors.AsType[*orchestrator.VersionError](err); ok {
		fmt.Println("now it is version", stale.Now)
	}
	res, err := bot.Put(ctx, "s", orchestrator.AnyVersion, orchestrator.Input{Kind: "double"}, double, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Cents, "after", res.Input.Kind)
	// Output:
	// opened: true
	// opened: false
	// now it is version 2
	// 1400 after double
}
