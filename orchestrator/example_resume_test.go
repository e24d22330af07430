package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A process goes away in the middle of a turn: here its context ends. The next process goes on after the last iteration
// that was saved. After a kill it finds the same, once the lease of the dead process has expired.
func ExampleOrchestrator_Resume() {
	type State struct{ Order, Reply string }
	type Turn = orchestrator.Turn[State]
	checkpoints, snapshots := new(checkpoint.Memory), new(snapshot.Memory) // what both processes share
	start := func(compose func(context.Context, *Turn) error) *orchestrator.Orchestrator[State] {
		find := func(_ context.Context, t *Turn) error {
			fmt.Println("finding the order")
			t.State.Order = "A-1042"
			return nil
		}
		bot, err := orchestrator.New(orchestrator.Definition[State]{
			Name: "support", Iterate: true, First: "find",
			Intents: orchestrator.Intents[State]{
				"find":    {Run: find, Next: orchestrator.To("compose")},
				"compose": {Run: compose, Next: orchestrator.End},
			},
		}, checkpoints, &orchestrator.Options{Snapshots: snapshots})
		if err != nil {
			log.Fatal(err)
		}
		return bot
	}

	ctx, die := context.WithCancel(context.Background())
	first := start(func(ctx context.Context, _ *Turn) error { die(); return ctx.Err() })
	_, err := first.Execute(ctx, "session-1", orchestrator.Input{Text: "where is it?"}, nil)
	fmt.Println(err, errors.Is(err, orchestrator.ErrIndeterminate))

	second := start(func(_ context.Context, t *Turn) error {
		t.State.Reply = t.State.Order + " has shipped"
		return nil
	})
	res, err := second.Resume(context.Background(), "session-1", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Input.Text, res.State.Reply)
	// Output:
	// finding the order
	// orchestrator: intent "compose": session "session-1" turn 0: outcome unknown: context canceled true
	// where is it? A-1042 has shipped
}

// An input finds that an earlier input was cut off. The earlier input is finished first, as a turn of its own.
func ExampleOnInterrupted() {
	type State struct{ Said []string }
	ctx, leave := context.WithCancel(context.Background())
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "chat",
		Intents: orchestrator.Intents[State]{
			"note": {Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
				leave() // the first caller goes away; other callers do not notice
				t.State.Said = append(t.State.Said, t.Input.Text)
				return ctx.Err()
			}},
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), OnInterrupted: orchestrator.ResumeFirst,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = bot.Execute(ctx, "session-1", orchestrator.Input{Text: "one"}, nil)
	fmt.Println(err)
	res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: "two"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Resumed.Turn, res.Resumed.State.Said)
	fmt.Println(res.Turn, res.State.Said)
	// Output:
	// orchestrator: intent "note": session "session-1" turn 0: outcome unknown: context canceled
	// 0 [one]
	// 1 [one two]
}

// The customer has changed their mind: the turn that was cut off is ended, and its changes to the state are gone.
func ExampleOrchestrator_Abandon() {
	type State struct{ Cart []string }
	ctx, leave := context.WithCancel(context.Background())
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "shop",
		Intents: orchestrator.Intents[State]{"add": {Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
			leave() // the first caller goes away; other callers do not notice
			t.State.Cart = append(t.State.Cart, t.Input.Text)
			return ctx.Err()
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = bot.Execute(ctx, "session-1", orchestrator.Input{Text: "a piano"}, nil)
	fmt.Println(errors.Is(err, orchestrator.ErrIndeterminate))

	ctx = context.Background()
	for run, err := range bot.Runs(ctx) {
		fmt.Println(run.Session, run.Status, err)
		fmt.Println(bot.Abandon(ctx, run.Session, run.ID))
		fmt.Println(bot.Abandon(ctx, run.Session, run.ID)) // a second click on "stop"
	}
	_, err = bot.Resume(ctx, "session-1", nil)
	fmt.Println(errors.Is(err, orchestrator.ErrNothingToResume))
	res, err := bot.Execute(ctx, "session-1", orchestrator.Input{Text: "a flute"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Turn, res.State.Cart)
	// Output:
	// true
	// session-1 waiting <nil>
	// true <nil>
	// false <nil>
	// true
	// 0 [a flute]
}

// A deploy: turns may finish until the context of Shutdown ends, here at once. The rest is handed off, and another
// process finishes it.
func ExampleOrchestrator_Shutdown() {
	type State struct{ Reply string }
	checkpoints, snapshots := new(checkpoint.Memory), new(snapshot.Memory) // what both processes share
	start := func(think func(context.Context, *orchestrator.Turn[State]) error) *orchestrator.Orchestrator[State] {
		bot, err := orchestrator.New(orchestrator.Definition[State]{
			Name:    "thinker",
			Intents: orchestrator.Intents[State]{"think": {Run: think}},
		}, checkpoints, &orchestrator.Options{Snapshots: snapshots})
		if err != nil {
			log.Fatal(err)
		}
		return bot
	}
	ctx := context.Background()
	thinking := make(chan struct{})
	old := start(func(ctx context.Context, _ *orchestrator.Turn[State]) error {
		close(thinking)
		<-ctx.Done() // a slow model
		return ctx.Err()
	})
	call := old.Stream(ctx, "session-1", orchestrator.Input{Text: "why?"}, nil)
	<-thinking
	patience, end := context.WithCancel(ctx)
	end()
	fmt.Println(old.Shutdown(patience))
	_, err := call.Result()
	fmt.Println(errors.Is(err, orchestrator.ErrIndeterminate), errors.Is(err, lock.ErrHandoff))

	next := start(func(_ context.Context, t *orchestrator.Turn[State]) error { t.State.Reply = "because"; return nil })
	for session, err := range next.Recoverable(ctx, false) {
		if err != nil {
			log.Fatal(err)
		}
		outcome, err := next.Recover(ctx, session)
		fmt.Println(session, outcome, err)
	}
	// Output:
	// <nil>
	// true true
	// session-1 settled <nil>
}
