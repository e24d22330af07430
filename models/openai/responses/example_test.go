package responses_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/openai/responses"
	"github.com/holdfast-go/holdfast/models/scripted"
)

type none struct{}

// An agent asks a server that speaks the responses API. Here it is on loopback, and replies by a script.
func Example() {
	script := scripted.New(scripted.On("", scripted.Say("Good morning.")))
	server := httptest.NewServer(modeltest.Responses.Serve(script))
	defer server.Close()

	model, err := responses.New("some-model", &responses.Options{
		BaseURL: server.URL, Key: "any", Prices: models.Prices{"some-model": {Input: 0.25, Output: 2}},
	})
	if err != nil {
		log.Fatal(err)
	}
	a, err := agent.New(agent.Definition[none]{Name: "shop", Model: model}, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	o, err := a.Say(context.Background(), "customer-7", agent.Text("hello"), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Text)
	// Output: Good morning.
}
