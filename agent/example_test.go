package agent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
)

// A script is a model for examples and tests: it asks for an order, then for a refund, and then says what came of it.
func script(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	said := func(blocks ...message.Block) (agent.Reply, error) {
		return agent.Reply{Message: message.Message{Role: message.RoleAssistant, Blocks: blocks}}, nil
	}
	switch newest := r.Said[len(r.Said)-1]; {
	case newest.Role == message.RoleUser:
		return said(message.ToolCall("call-1", "order", []byte(`{"number":"A-1042"}`)))
	case newest.Blocks[0].Text == "lost":
		return said(message.ToolCall("call-2", "refund", []byte(`{"number":"A-1042","cents":4200}`)))
	default:
		return said(message.Text("Your money: " + newest.Blocks[0].Text))
	}
}

// A model looks an order up, and pays it back once a person has agreed. Nothing is held while the session waits: the
// answer may come days later, to another process.
func Example() {
	type order struct {
		Number string `json:"number" jsonschema:"such as A-1042"`
		Cents  int    `json:"cents,omitempty"`
	}
	ctx := context.Background()
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "shop", Model: agent.ModelFunc(script), Instructions: "You work for a shop.",
		Tools: []agent.Tool{
			agent.Read("order", "looks an order up", func(context.Context, order) (string, error) {
				return "lost", nil
			}),
			agent.Effect[order, string]{
				Name: "refund", Description: "pays an order back", Class: ledger.Idempotent,
				Run:     func(context.Context, string, order) (string, error) { return "paid back", nil },
				Key:     func(o order) string { return o.Number }, // once ever
				Approve: func(o order) bool { return o.Cents > 1000 },
			}.Tool(),
		},
	}, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	o, err := a.Say(ctx, "customer-7", agent.Text("Where is A-1042?"), nil)
	if err != nil {
		log.Fatal(err)
	}
	p := o.Pending[0]
	fmt.Println(o.Status, p.Call.Name, string(p.Call.Args))

	o, err = a.Answer(ctx, "customer-7", p.Call.ID, agent.Approve("ann"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Status, o.Text)
	// Output:
	// paused refund {"number":"A-1042","cents":4200}
	// completed Your money: paid back
}
