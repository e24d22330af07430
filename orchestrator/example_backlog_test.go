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

// An operator asks what is not finished, in all processes. ObserveBacklog reports it as gauges.
func ExampleOrchestrator_Backlog() {
	type Turn = orchestrator.Turn[string]
	bot, err := orchestrator.New(orchestrator.Definition[string]{
		Name: "shop",
		Intents: orchestrator.Intents[string]{"reply": {Run: func(_ context.Context, t *Turn) error {
			t.AddUsage(orchestrator.Usage{Input: 812, Output: 40, Cost: 0.002, Model: "small"})
			return nil
		}}},
		Deliver: func(context.Context, *orchestrator.Result[string]) error { return errors.New("mail server is down") },
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := bot.Execute(ctx, "s", orchestrator.Input{Text: "hello"}, nil); err != nil {
		log.Fatal(err)
	}
	b, err := bot.Backlog(ctx)
	fmt.Println(b.Running, b.Parked, b.Owed, err)
	// Output: 0 0 1 <nil>
}

// A program without Serve of package turnhttp reports what is not finished, until it closes the clients of its stores.
func ExampleOrchestrator_ObserveBacklog() {
	bot, err := orchestrator.New(orchestrator.Definition[string]{
		Name: "shop",
		Intents: orchestrator.Intents[string]{"reply": {Run: func(context.Context, *orchestrator.Turn[string]) error {
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	// First give OpenTelemetry the provider of the service: otel.SetMeterProvider(provider).
	stop, err := bot.ObserveBacklog()
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			log.Print(err)
		}
	}()
	// Output:
}
