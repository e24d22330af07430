package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The payments of a vendor. It knows no keys, and cannot be asked by a program.
type payments struct {
	made []int
	die  context.CancelFunc // ends the process before the vendor's answer arrives
}

type payment struct {
	Cents int `json:"cents"`
}

func (p *payments) pay(ctx context.Context, _ string, in payment) (string, error) {
	p.made = append(p.made, in.Cents)
	if p.die != nil {
		p.die()
		return "", ctx.Err()
	}
	return fmt.Sprint("receipt ", len(p.made)), nil
}

// teller returns the agent as each process makes it.
func teller(stores agent.Stores, vendor *payments) *agent.Agent[struct{}] {
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "teller",
		Model: scripted.New(
			scripted.On(`pay (\d+)`, scripted.Call("pay", `{"cents":{1}}`), scripted.Say("Paid: {result}.")),
			scripted.On("", scripted.Say("Hello.")),
		),
		Tools: []agent.Tool{agent.Effect[payment, string]{Name: "pay", Description: "pays", Run: vendor.pay}.Tool()},
	}, stores, quiet)
	if err != nil {
		log.Fatal(err)
	}
	return a
}

// A process dies in the middle of a payment. The next one goes on by hand, in three steps: what is pending is verified,
// the session is read, and the turn goes on through the usual way. A process that uses package bootdrain, or just says
// the next thing, does the same without a hand: only what nobody can verify waits for a person.
func Example_resume() {
	stores, vendor := agent.InMemory(), new(payments)
	said := orchestrator.Input{RequestID: "r-2", Text: "pay 700"}
	process, die := context.WithCancel(context.Background())
	a := teller(stores, vendor)
	if _, err := a.Say(process, "s-1", agent.Text("hi"), nil); err != nil {
		log.Fatal(err)
	}
	vendor.die = die
	_, err := a.Say(process, "s-1", said, nil)
	fmt.Println("the process dies:", err != nil)

	ctx := context.Background()
	vendor.die = nil
	a = teller(stores, vendor)

	// 1. Verify what is pending. The first look makes it in doubt: nobody else is at work on it.
	_, err = a.Say(ctx, "s-1", said, nil)
	fmt.Println("a person is asked:", errors.Is(err, orchestrator.ErrSuspended))
	for e, err := range stores.Ledger.Effects(ctx, ledger.Query{Orchestrator: a.Name(), Session: "s-1", Open: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("pending:", e.Name, string(e.Args), e.State)
		answer := ledger.Answer{By: "ann"} // it did not land: it is tried again
		if len(vendor.made) > 0 {          // ann looks at the account
			answer.Landed, answer.Result = true, json.RawMessage(`"receipt 1"`)
		}
		if err := ledger.Resolve(ctx, stores.Ledger, e.ID, answer); err != nil {
			log.Fatal(err)
		}
	}

	// 2. Read the newest state and what was said.
	_, version, err := a.Get(ctx, "s-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", version)
	for m, err := range a.Messages(ctx, "s-1") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Role, m.Blocks[0].Text)
	}

	// 3. Go on.
	o, err := a.Say(ctx, "s-1", said, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Text, len(vendor.made), "payment")
	// Output:
	// the process dies: true
	// a person is asked: true
	// pending: pay {"cents":700} unknown
	// version 1
	// user hi
	// assistant Hello.
	// Paid: receipt 1. 1 payment
}
