package agent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
)

// A planner asks a payer, who has to be allowed. The question is answered at the planner. A process that boots finishes
// what another one has left: who asks comes first.
func Example_team() {
	type payment struct {
		Invoice int `json:"invoice"`
	}
	type plan struct {
		Steps []string `json:"steps"`
	}
	ctx, stores := context.Background(), agent.InMemory()
	payer, err := agent.New(agent.Definition[struct{}]{
		Name: "payer",
		Model: scripted.New(scripted.On(`invoice (\d+)`,
			scripted.Call("pay", `{"invoice":{1}}`), scripted.Say("Invoice {1} is paid."))),
		Tools: []agent.Tool{agent.Effect[payment, string]{
			Name: "pay", Description: "pays an invoice", Class: ledger.Idempotent,
			Approve: func(payment) bool { return true },
			Run:     func(context.Context, string, payment) (string, error) { return "paid", nil },
		}.Tool()},
	}, stores, nil)
	if err != nil {
		log.Fatal(err)
	}
	planner, err := agent.New(agent.Definition[struct{}]{
		Name: "planner", Finish: agent.Output[plan]("done", "the plan"),
		Model: scripted.New(scripted.On("settle (.+)",
			scripted.Call("payer", `{"input":"pay {1}"}`), scripted.Call("done", `{"steps":["paid {1}"]}`))),
		Tools: []agent.Tool{agent.ChildTool(payer, "pays invoices")},
	}, stores, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range []bootdrain.Bot{planner.Bot(), payer.Bot()} {
		if _, err := bootdrain.DrainInterrupted(ctx, b, nil); err != nil {
			log.Fatal(err)
		}
	}

	o, err := planner.Say(ctx, "s-1", agent.Text("settle invoice 7"), nil)
	for err == nil && o.Status == agent.Paused {
		p := o.Pending[0]
		fmt.Println(p.Agent, "wants to", p.Call.Name, string(p.Call.Args))
		o, err = planner.Answer(ctx, "s-1", p.Call.ID, agent.Approve("desk"))
	}
	if err != nil {
		log.Fatal(err)
	}
	done, err := agent.As[plan](o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Steps)
	// Output:
	// payer wants to pay {"invoice":7}
	// [paid invoice 7]
}
