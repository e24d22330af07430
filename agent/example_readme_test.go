package agent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
)

func Example() {
	type Order struct{ Number string }
	ctx := context.Background()
	model := scripted.New(scripted.On(`refund (\S+)`, // it stands for a model that costs money
		scripted.Call("refund", `{"Number":"{1}"}`), scripted.Say("The bank says: {result}.")))
	refund := agent.Effect[Order, string]{
		Name: "refund", Description: "pays an order back", Class: ledger.Idempotent,
		Run:     func(_ context.Context, key string, o Order) (string, error) { return "refunded " + o.Number, nil },
		Key:     func(o Order) string { return o.Number }, // each order once ever, whatever the model asks for
		Approve: func(Order) bool { return true },         // a person has to agree
	}
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "shop", Model: model, Instructions: "You work for a shop.", Tools: []agent.Tool{refund.Tool()},
	}, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	o, err := a.Say(ctx, "customer-7", agent.Text("Please refund A-1042"), nil)
	if err != nil {
		log.Fatal(err)
	}
	call := o.Pending[0].Call
	fmt.Println(o.Status, call.Name, string(call.Args))

	o, err = a.Answer(ctx, "customer-7", call.ID, agent.Approve("ann")) // days later, in any process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Status, o.Text)
	// Output:
	// paused refund {"Number":"A-1042"}
	// completed The bank says: refunded A-1042.
}
