package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type customer struct{ Tier string }

// desk is a program of an operator: who waits, what is in doubt, what has run; it tries a session otherwise, and
// corrects it.
func desk(ctx context.Context, a *agent.Agent[customer], l ledger.Ledger) error {
	for o, err := range a.Waiting(ctx, "") {
		if err != nil {
			return err
		}
		for _, p := range o.Pending { // p.Since says since when
			fmt.Println(o.Session, "waits:", p.Agent, p.Call.Name, string(p.Call.Args))
		}
		if _, err := a.Drop(ctx, o.Session); err != nil {
			return err
		}
	}
	for e, err := range l.Effects(ctx, ledger.Query{Orchestrator: a.Name(), Open: true}) {
		if err != nil {
			return err
		}
		fmt.Println(e.Session, "in doubt:", e.Name, e.Error)
		err := ledger.Resolve(ctx, l, e.ID, ledger.Answer{Landed: true, By: "desk"})
		if err != nil && !errors.Is(err, ledger.ErrAnswered) {
			return err
		}
	}
	if err := a.Branch(ctx, "s-1", 1, "s-1-what-if"); err != nil {
		return err
	}
	state, version, err := a.Get(ctx, "s-1")
	if err != nil {
		return err
	}
	_, err = a.Update(ctx, "s-1", version, func(s *agent.State[customer]) error { // compare and set
		s.Custom.Tier = "gold"
		s.Metadata = map[string]string{"was": state.Custom.Tier}
		return nil
	})
	if err != nil {
		return err
	}
	for r, err := range a.Runs(ctx, "s-1") {
		if err != nil {
			return err
		}
		fmt.Println("s-1", r.Version, r.Kind, r.Status)
	}
	return nil
}

// An operator looks after the sessions of an agent.
func ExampleAgent_operations() {
	ctx, stores := context.Background(), agent.InMemory()
	a, err := agent.New(agent.Definition[customer]{
		Name: "shop",
		Model: scripted.New(
			scripted.On("pay", scripted.Call("pay", `{"cents":700}`), scripted.Say("It is done: {result}")),
			scripted.On("refund", scripted.Call("refund", `{"cents":42000}`)),
			scripted.On("", scripted.Say("Hello.")),
		),
		Tools: []agent.Tool{
			agent.Effect[payment, string]{
				Name: "pay", Run: func(context.Context, string, payment) (string, error) {
					return "", errors.New("no reply")
				},
			}.Tool(),
			agent.Effect[payment, string]{
				Name: "refund", Approve: func(payment) bool { return true },
				Run: func(context.Context, string, payment) (string, error) { return "paid", nil },
			}.Tool(),
		},
	}, stores, quiet)
	if err != nil {
		log.Fatal(err)
	}
	for _, said := range [][2]string{{"s-1", "hi"}, {"s-1", "refund me"}, {"s-2", "pay me"}} {
		_, err = a.Say(ctx, said[0], agent.Text(said[1]), nil)
	}
	fmt.Println("a person is asked:", errors.Is(err, orchestrator.ErrSuspended))
	if err := desk(ctx, a, stores.Ledger); err != nil {
		log.Fatal(err)
	}
	if _, err := a.Say(ctx, "s-2", agent.Text("hi again"), nil); err != nil { // it finishes the turn before
		log.Fatal(err)
	}
	for m, err := range a.Messages(ctx, "s-2") {
		if err != nil {
			log.Fatal(err)
		}
		if text := m.Blocks[0].Text; text != "" {
			fmt.Println(m.Role, text)
		}
	}
	// Output:
	// a person is asked: true
	// s-1 waits: shop refund {"cents":42000}
	// s-2 in doubt: pay no reply
	// s-1 4 update completed
	// s-1 3 drop completed
	// s-1 2 say suspended_client_tool
	// s-1 1 say completed
	// user pay me
	// tool it was done, as a person says
	// assistant It is done: it was done, as a person says
	// user hi again
	// assistant Hello.
}
