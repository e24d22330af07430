package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type order struct {
	Order string `json:"order"`
}

type orderNow struct {
	Order string `json:"order"`
	Now   bool   `json:"now"`
}

// newShop returns a server with a tool of each kind. It says on standard error what was called.
func newShop() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	no := false
	type work = func(context.Context, string) (*sdk.CallToolResult, error)
	add := func(name string, hints *sdk.ToolAnnotations, does work) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: name + " an order", Annotations: hints},
			func(ctx context.Context, r *sdk.CallToolRequest, in order) (*sdk.CallToolResult, any, error) {
				fmt.Fprintln(os.Stderr, "called", name, r.Params.GetMeta()["holdfast/key"])
				res, err := does(ctx, in.Order)
				return res, nil, err
			})
	}
	says := func(prefix string) work {
		return func(_ context.Context, in string) (*sdk.CallToolResult, error) { return text(prefix + in), nil }
	}
	add("look", &sdk.ToolAnnotations{ReadOnlyHint: true}, says("seen "))
	add("again", &sdk.ToolAnnotations{IdempotentHint: true}, says("again "))
	add("mark", &sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: &no}, says("marked "))
	add("note", &sdk.ToolAnnotations{DestructiveHint: &no}, says("noted "))
	add("pay", nil, says("paid "))
	add("fails", nil, func(context.Context, string) (*sdk.CallToolResult, error) { return nil, errors.New("declined") })
	add("big", nil, says(strings.Repeat("é", 5<<20)))
	add("hang", nil, hang)
	add("hanglook", &sdk.ToolAnnotations{ReadOnlyHint: true}, hang)
	add("die", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	add("asks", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"1": &sdk.ElicitParams{
			Message: "Which day?", RequestedSchema: map[string]any{"type": "object"},
		}}}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "book"}, book)
	add("roots", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		roots := &sdk.ListRootsParams{} //nolint:staticcheck // a server may still ask for them
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"1": roots}}, nil
	})
	add("busy", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{}}, nil
	})
	opened := false
	add("link", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		if !opened {
			opened = true
			return nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{{
				Mode: "url", Message: "Log in:", URL: "https://bank.example/login", ElicitationID: "1",
			}})
		}
		return text("linked"), nil
	})
	add("photo", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "here"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("1234")},
			&sdk.ResourceLink{URI: "file:///a", Name: "a"},
		}}, nil
	})
	add("change", nil, func(context.Context, string) (*sdk.CallToolResult, error) {
		change(s)
		return text("changed"), nil
	})
	return s
}

// book asks for a seat and a meal, at once, and wants its state back.
func book(_ context.Context, r *sdk.CallToolRequest, in order) (*sdk.CallToolResult, any, error) {
	fmt.Fprintln(os.Stderr, "called book", r.Params.GetMeta()["holdfast/key"])
	form := func(name string) *sdk.ElicitParams {
		return &sdk.ElicitParams{Message: "Which " + name + "?", RequestedSchema: map[string]any{
			"type": "object", "required": []string{name},
			"properties": map[string]any{name: map[string]any{"type": "string", "maxLength": 4}},
		}}
	}
	if len(r.Params.InputResponses) == 0 {
		asks := sdk.InputRequestMap{"a": form("seat"), "b": form("meal")}
		return &sdk.CallToolResult{InputRequests: asks, RequestState: "held " + in.Order}, nil, nil
	}
	said := r.Params.RequestState
	for _, id := range []string{"a", "b"} {
		res, ok := r.Params.InputResponses[id].(*sdk.ElicitResult)
		if !ok || res.Action != "accept" {
			return nil, nil, fmt.Errorf("no booking: %+v", res)
		}
		said += fmt.Sprint(" ", res.Content)
	}
	return text(said), nil, nil
}

// change removes a tool, gives another one a further argument, and makes a third one less harmless.
func change(s *sdk.Server) {
	s.RemoveTools("look")
	sdk.AddTool(s, &sdk.Tool{Name: "pay"},
		func(context.Context, *sdk.CallToolRequest, orderNow) (*sdk.CallToolResult, any, error) {
			return text("paid"), nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "hanglook"},
		func(context.Context, *sdk.CallToolRequest, order) (*sdk.CallToolResult, any, error) {
			return text("!"), nil, nil
		})
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

func hang(ctx context.Context, _ string) (*sdk.CallToolResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func serveShop() error {
	fmt.Fprintln(os.Stderr, "pid", os.Getpid())
	return newShop().Run(context.Background(), &sdk.StdioTransport{})
}

// overHTTP returns a handler of a new server. It knows no session of another one. plain has no sessions at all.
func overHTTP(plain bool) (http.Handler, *sdk.Server) {
	s := newShop()
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: plain}), s
}

func serveShopHTTP() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "address", l.Addr())
	h, _ := overHTTP(false)
	return http.Serve(l, h) //nolint:gosec // a test
}
