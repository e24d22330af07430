package scripted_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/models/scripted"
)

type order struct {
	Number string `json:"number"`
}

// A process is started again between two turns. Its model goes on where the one before has stopped.
func Example() {
	model := func() agent.Model {
		return scripted.New(
			scripted.On(`where is (\S+)\?`, scripted.Call("find", `{"number":"{1}"}`), scripted.Say("{1}: {result}.")),
			scripted.On("", scripted.Say("I only know orders.")),
		)
	}
	find := agent.Read("find", "finds an order", func(context.Context, order) (string, error) {
		return "on its way", nil
	})
	stores := agent.InMemory()
	for _, text := range []string{"where is A-1042?", "what is love?"} {
		a, err := agent.New(agent.Definition[struct{}]{
			Name: "shop", Model: model(), Tools: []agent.Tool{find},
		}, stores, nil)
		if err != nil {
			log.Fatal(err)
		}
		o, err := a.Say(context.Background(), "customer-7", agent.Text(text), nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(o.Text)
	}
	// Output:
	// A-1042: on its way.
	// I only know orders.
}
