package openai_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	api "github.com/openai/openai-go/v3"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/openai"
	"github.com/holdfast-go/holdfast/models/scripted"
)

type none struct{}

// An agent asks a server that is compatible with OpenAI. Here it is on loopback, and replies by a script.
func Example() {
	script := scripted.New(scripted.On("", scripted.Say("Good morning.")))
	server := httptest.NewServer(modeltest.Chat.Serve(script))
	defer server.Close()

	model, err := openai.New("some-model", &openai.Options{
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

// Params are those of the client. The prices are made up: look them up.
func ExampleOptions() {
	model, err := openai.New("gpt-5-mini", &openai.Options{
		Params: api.ChatCompletionNewParams{MaxCompletionTokens: api.Int(4000), ReasoningEffort: "low"},
		Prices: models.Prices{"gpt-5-mini": {Input: 0.25, Cached: 0.025, Output: 2}},
	})
	if err != nil { // without a key, say
		log.Fatal(err)
	}
	_ = model
}
