package orchestratortest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/turnlog"
)

// State is the state of the bot in these examples.
type State struct{ Order, Reply string }

// Turn is a turn of the bot in these examples.
type Turn = orchestrator.Turn[State]

// support is the bot in these examples. It looks up an order, and then answers.
func support() orchestrator.Definition[State] {
	lookUp := func(_ context.Context, t *Turn) error { t.State.Order = "A-1042"; return nil }
	answer := func(_ context.Context, t *Turn) error {
		t.Emit("It is on its way.")
		t.State.Reply = t.State.Order + " is on its way"
		return nil
	}
	return orchestrator.Definition[State]{
		Name: "support", Iterate: true, First: "look up",
		Intents: orchestrator.Intents[State]{
			"look up": {Run: lookUp, Next: orchestrator.To("answer")},
			"answer":  {Run: answer, Next: orchestrator.End},
		},
	}
}

var (
	ctx = context.Background()
	in  = orchestrator.Input{RequestID: "request-1", Text: "Where is my order?"}
)

// A process dies when it has answered and nothing of that is saved. Another process gets the same request, and goes on
// after the last step that was saved. Under testing/synctest it would wait for the lease of the first, in no time.
func Example() {
	var world orchestratortest.World
	first := orchestratortest.Start(&world, support(), nil)
	first.DieAfter("answer", 1)
	_, _ = first.Bot.Execute(ctx, "customer-7", in, nil) // a dead process tells nothing
	fmt.Println(first.Dead(), first.Ran())

	if err := first.Expire(ctx); err != nil {
		fmt.Println(err)
	}
	second := orchestratortest.Start(&world, support(), nil)
	res, err := second.Bot.Execute(ctx, "customer-7", in, nil)
	fmt.Println(res.State.Reply, err, second.Ran())
	// Output:
	// true [look up answer]
	// A-1042 is on its way <nil> [answer]
}

// A call of a store is a step too. Here the process dies when the turn is settled, before its caller is told.
func ExampleProcess_DieAfter() {
	var world orchestratortest.World
	first := orchestratortest.Start(&world, support(), nil)
	first.DieAfter("checkpoint.Append", 1)
	_, _ = first.Bot.Execute(ctx, "customer-7", in, nil)
	if err := first.Expire(ctx); err != nil {
		fmt.Println(err)
	}

	second := orchestratortest.Start(&world, support(), nil)
	res, err := second.Bot.Execute(ctx, "customer-7", in, nil)
	fmt.Println(res.State.Reply, res.Replayed, err, second.Ran())
	// Output: A-1042 is on its way true <nil> []
}

// What the bot has emitted: its tokens, and its events.
func ExampleProcess_Events() {
	var world orchestratortest.World
	p := orchestratortest.Start(&world, support(), nil)
	_, err := p.Bot.Execute(ctx, "customer-7", in, nil)
	fmt.Println(p.Text(), err)
	for _, ev := range p.Events() {
		if ev.Intent == "answer" {
			fmt.Println(ev.Seq, ev.Kind)
		}
	}
	// Output:
	// It is on its way. <nil>
	// 6 intent.started
	// 7 token
	// 8 intent.ended
}

// A store loses its reply to the Append that settles the turn. The engine asks again, and the turn settles once.
func ExampleProcess_LoseReply() {
	var world orchestratortest.World
	p := orchestratortest.Start(&world, support(), nil)
	p.LoseReply("checkpoint.Append", 1)
	res, err := p.Bot.Execute(ctx, "customer-7", in, nil)
	fmt.Println(res.Turn, res.State.Reply, err)
	// Output: 0 A-1042 is on its way <nil>
}

// The snapshot store cannot be reached. The turn does not begin, so no intent runs.
func ExampleProcess_Fail() {
	var world orchestratortest.World
	p := orchestratortest.Start(&world, support(), nil)
	p.Fail("snapshot.Begin", 1)
	_, err := p.Bot.Execute(ctx, "customer-7", in, nil)
	fmt.Println(err != nil, p.Ran())
	// Output: true []
}

// The bot has a turn log, and its process dies when the turn has begun. The next process finishes the turn: it has one
// beginning and one end.
func ExampleWorld_turnLog() {
	world := orchestratortest.World{TurnLog: new(turnlog.Memory)}
	first := orchestratortest.Start(&world, support(), nil)
	first.DieAfter("turnlog.Record", 1)
	_, _ = first.Bot.Execute(ctx, "customer-7", in, nil)
	if err := first.Expire(ctx); err != nil {
		fmt.Println(err)
	}

	second := orchestratortest.Start(&world, support(), nil)
	res, err := second.Bot.Execute(ctx, "customer-7", in, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	entries, err := world.TurnLog.Restore(ctx, res.RunID)
	for _, e := range entries {
		fmt.Println(e.Phase)
	}
	fmt.Println(first.Ran(), second.Ran(), err)
	// Output:
	// started
	// settled
	// [] [look up answer] <nil>
}

// A store is slow, and the caller does not wait so long.
func ExampleProcess_Slow() {
	var world orchestratortest.World
	p := orchestratortest.Start(&world, support(), nil)
	p.Slow("checkpoint.Claim", time.Hour)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := p.Bot.Execute(ctx, "customer-7", in, nil)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), p.Ran())
	// Output: true []
}

// A process is cut off from its stores, and the network comes back.
func ExampleProcess_CutOff() {
	var world orchestratortest.World
	p := orchestratortest.Start(&world, support(), nil)
	reconnect := p.CutOff()
	call := p.Bot.Stream(ctx, "customer-7", in, nil)
	reconnect()
	res, err := call.Result()
	fmt.Println(res.State.Reply, err)
	// Output: A-1042 is on its way <nil>
}
