package anthropic_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	api "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/anthropic"
	"github.com/holdfast-go/holdfast/models/scripted"
)

type none struct{}

// An agent asks a server that speaks the API of Anthropic. Here it is on loopback, and replies by a script.
func Example() {
	script := scripted.New(scripted.On("", scripted.Say("Good morning.")))
	server := httptest.NewServer(modeltest.Messages.Serve(script))
	defer server.Close()

	model, err := anthropic.New("some-model", &anthropic.Options{
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

// A model thinks, and what was said is cached for an hour. The prices are made up: look them up.
func ExampleOptions() {
	model, err := anthropic.New("claude-sonnet-4-5", &anthropic.Options{
		Params: api.MessageNewParams{MaxTokens: 16_000, Thinking: api.ThinkingConfigParamOfEnabled(8000)},
		Prices: models.Prices{"claude-sonnet-4-5": {Input: 3, Cached: 0.3, Written: 6, Output: 15}}, CacheHour: true,
	})
	if err != nil { // without a key, say
		log.Fatal(err)
	}
	_ = model
}
