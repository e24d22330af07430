package mcp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/mcp"
	"github.com/holdfast-go/holdfast/models/scripted"
)

// A server behind HTTP. The program knows one of its tools; of the other one a person is asked.
func Example() {
	ctx := context.Background()
	server := httptest.NewServer(clock()) // it stands for a server elsewhere
	defer server.Close()
	c, err := mcp.HTTP(ctx, server.URL, &mcp.Options{
		Prefix: "clock_", Classes: map[string]ledger.Class{"time": ledger.Pure},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	model := scripted.New(scripted.On("time", scripted.Call("clock_time", "{}"), scripted.Call("clock_set", "{}"),
		scripted.Say("It was {result}.")))
	d := agent.Definition[struct{}]{Name: "clerk", Model: model, Tools: c.Tools()}
	a, err := agent.New(d, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	o, err := a.Say(ctx, "s", agent.Text("what time is it?"), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Status, o.Pending[0].Call.Name)
	if o, err = a.Answer(ctx, "s", o.Pending[0].Call.ID, agent.Approve("ann")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Text)
	// Output:
	// paused clock_set
	// It was set.
}

// clock is a server without sessions.
func clock() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "clock", Version: "1"}, nil)
	for name, says := range map[string]string{"time": "noon", "set": "set"} {
		sdk.AddTool(s, &sdk.Tool{Name: name},
			func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return text(says), nil, nil
			})
	}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true})
}
