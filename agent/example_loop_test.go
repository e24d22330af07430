package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/retry"
)

// A library of agents has interfaces of its own. It calls a model until the model calls no tool any more.
type (
	generator func(ctx context.Context, said []string) (text, tool string, err error)
	toolbox   map[string]func(ctx context.Context, args string) (string, error)
)

func react(ctx context.Context, model generator, tools toolbox, said ...string) (string, error) {
	for {
		text, tool, err := model(ctx, said)
		if err != nil || tool == "" {
			return text, err
		}
		result, err := tools[tool](ctx, text)
		if err != nil {
			result = "failed: " + err.Error()
		}
		said = append(said, text, result)
	}
}

type helpState struct{ Said string }

// helper is a bot whose turns are runs of the library. Two adapters make them durable.
func helper() orchestrator.Definition[helpState] {
	type said struct{ Text, Tool string }
	model := func(ctx context.Context, all []string) (text, tool string, err error) {
		s, err := agent.Recorded(ctx, "model", all, func(context.Context) (said, orchestrator.Usage, error) {
			fmt.Println("the model is asked:", all)
			used := orchestrator.Usage{Cost: 0.01}
			if len(all) == 1 {
				return said{`{"order":"A-1042"}`, "refund"}, used, nil
			}
			return said{Text: "It is " + all[2] + "."}, used, nil
		})
		return s.Text, s.Tool, err
	}
	pays := agent.Effect[refundArgs, string]{
		Name: "refund", Class: ledger.Idempotent,
		Run: func(_ context.Context, _ string, in refundArgs) (string, error) {
			fmt.Println("the bank refunds", in.Order)
			return "refunded", nil
		},
	}.Tool()
	refund := func(ctx context.Context, args string) (string, error) {
		r, err := agent.Once(ctx, pays, agent.Call{Args: json.RawMessage(args)})
		return r.Text, err
	}
	answer := func(ctx context.Context, t *orchestrator.Turn[helpState]) error {
		return agent.Loop(ctx, t, func(ctx context.Context) (err error) {
			t.State.Said, err = react(ctx, model, toolbox{"refund": refund}, t.Input.Text)
			return err
		})
	}
	return orchestrator.Definition[helpState]{
		Name: "help", Intents: orchestrator.Intents[helpState]{"answer": {Run: answer}},
	}
}

// A loop of a library runs in a turn. The process dies when all is done and nothing of it is saved. The next process
// comes to the same end: it asks nothing, and pays nothing.
func ExampleLoop() {
	ctx, in := context.Background(), orchestrator.Input{RequestID: "request-1", Text: "A-1042 arrived broken"}
	var world orchestratortest.World
	first := orchestratortest.Start(&world, helper(), nil)
	first.DieAfter("answer", 1)
	_, _ = first.Bot.Execute(ctx, "customer-7", in, nil)
	if err := first.Expire(ctx); err != nil {
		log.Fatal(err)
	}
	res, err := orchestratortest.Start(&world, helper(), nil).Bot.Execute(ctx, "customer-7", in, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Said, res.Usage.Cost)
	// Output:
	// the model is asked: [A-1042 arrived broken]
	// the bank refunds A-1042
	// the model is asked: [A-1042 arrived broken {"order":"A-1042"} refunded]
	// It is refunded. 0.02
}

// An intent asks a model, fails, and is tried again. The reply is the one that was recorded, and it has cost once.
func ExampleRecorded() {
	answer := func(ctx context.Context, t *orchestrator.Turn[helpState]) error {
		return agent.Loop(ctx, t, func(ctx context.Context) (err error) {
			t.State.Said, err = agent.Recorded(ctx, "model", t.Input.Text,
				func(context.Context) (string, orchestrator.Usage, error) {
					fmt.Println("the model is asked")
					return "It is on its way.", orchestrator.Usage{Output: 5}, nil
				})
			if err == nil && t.Attempt == 1 {
				err = errors.New("something else has failed")
			}
			return err
		})
	}
	var world orchestratortest.World
	bot := orchestratortest.Start(&world, orchestrator.Definition[helpState]{
		Name: "help", Intents: orchestrator.Intents[helpState]{"answer": {Run: answer, Retry: retry.Fixed(2, 0)}},
	}, nil).Bot
	res, err := bot.Execute(context.Background(), "customer-7", orchestrator.Input{Text: "Where is A-1042?"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Said, res.Usage.Output)
	// Output:
	// the model is asked
	// It is on its way. 5
}

// A tool of another library runs once for a call with an id, also if the loop asks for it again.
func ExampleOnce() {
	theirs := func(_ context.Context, args json.RawMessage) (string, error) {
		fmt.Println("sent", string(args))
		return "sent", nil
	}
	mail := agent.Tool{
		Name: "mail", Parameters: json.RawMessage(`{"type":"object","required":["to"]}`), Class: ledger.Ask,
		Run: func(ctx context.Context, c agent.Call) (string, error) { return theirs(ctx, c.Args) },
	}
	answer := func(ctx context.Context, t *orchestrator.Turn[helpState]) error {
		return agent.Loop(ctx, t, func(ctx context.Context) error {
			for _, args := range []string{`{"to":"ann"}`, `{"to":"ann"}`, `{}`} {
				r, err := agent.Once(ctx, mail, agent.Call{ID: "call-1", Args: json.RawMessage(args)})
				if err != nil {
					return err // the turn waits: nobody knows whether it was sent
				}
				fmt.Println(r.Text, r.Failed)
			}
			return nil
		})
	}
	var world orchestratortest.World
	bot := orchestratortest.Start(&world, orchestrator.Definition[helpState]{
		Name: "help", Intents: orchestrator.Intents[helpState]{"answer": {Run: answer}},
	}, nil).Bot
	if _, err := bot.Execute(context.Background(), "customer-7", orchestrator.Input{}, nil); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sent {"to":"ann"}
	// sent false
	// sent false
	// the arguments do not fit: validating root: required: missing properties: ["to"] true
}
