package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/mcp"
	"github.com/holdfast-go/holdfast/models/scripted"
)

// What the hints of a server come to, and what the program says about it.
func TestClasses(t *testing.T) {
	trusting := &mcp.Options{Trust: true, Prefix: "shop_", Classes: map[string]ledger.Class{"fails": ledger.Pure}}
	trusted, _ := start(t, "shop", trusting)
	strange, _ := start(t, "shop", nil)
	for _, c := range []struct {
		name     string
		class    ledger.Class
		approved bool
	}{
		{"look", ledger.Pure, false},
		{"again", ledger.Idempotent, true},
		{"mark", ledger.Idempotent, false},
		{"note", ledger.Ask, false},
		{"pay", ledger.Ask, true},
		{"fails", ledger.Pure, false},
	} {
		got := tool(t, trusted, "shop_"+c.name)
		if got.Class != c.class || (got.Wait == agent.Approval) != c.approved {
			t.Errorf("trusted: %s is %s and waits for %q", c.name, got.Class, got.Wait)
		}
		if got.Description != c.name+" an order" || !strings.Contains(string(got.Parameters), `"order"`) {
			t.Errorf("%s: %s %s", c.name, got.Description, got.Parameters)
		}
		if got = tool(t, strange, c.name); got.Class != ledger.Ask || got.Wait != agent.Approval {
			t.Errorf("strange: %s is %s and waits for %q", c.name, got.Class, got.Wait)
		}
	}
	dear := func(tool string, args json.RawMessage) bool {
		return tool == "pay" && strings.Contains(string(args), "dear")
	}
	own, _ := start(t, "shop", &mcp.Options{Only: []string{"pay", "look"}, Approve: dear})
	if all := own.Tools(); len(all) != 2 {
		t.Errorf("Only: %d tools", len(all))
	}
	pay, look := tool(t, own, "pay"), tool(t, own, "look")
	if !pay.When([]byte(`"dear"`)) || pay.When([]byte(`"cheap"`)) || look.When([]byte(`"dear"`)) {
		t.Error("Approve does not say who is asked")
	}
}

// What the results of a server come to.
func TestResults(t *testing.T) {
	c, says := start(t, "shop", &mcp.Options{MaxResult: 1000})
	var refused *mcp.InputRequiredError
	good := func(err error) bool { return err == nil }
	for _, x := range []struct {
		name, want string
		is         func(error) bool
	}{
		{"pay", "paid A", good},
		{"photo", "here\n[image/png, 4 bytes, not shown]\n[file:///a]", good},
		{"big", strings.Repeat("é", 500) + " [cut: there were 10485761 bytes]", good},
		{"fails", "declined", func(err error) bool { return err != nil && !ledger.IsNotDone(err) }},
		{"asks", "the tool asks: Which day?", func(err error) bool { return err != nil && !ledger.IsNotDone(err) }},
		{"roots", `what it cannot get here: ["ListRoots"]`, func(err error) bool {
			return errors.As(err, &refused) && ledger.IsNotDone(err)
		}},
		{"busy", "the server is busy, and wants the call later", ledger.IsNotDone},
	} {
		got, err := run(t, t.Context(), c, x.name, `{"order":"A"}`)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, x.want) || !x.is(err) {
			t.Errorf("%s: %.200q, %v", x.name, got, err)
		}
		if key := says.await(t, "called "+x.name); key != "key-1" {
			t.Errorf("%s: the server has got the key %q", x.name, key)
		}
	}
}

// A program may give a tool what the server does not say: then an agent takes it.
func TestVerifiable(t *testing.T) {
	c, _ := start(t, "shop", &mcp.Options{Only: []string{"pay"}, Classes: map[string]ledger.Class{
		"pay": ledger.Verifiable,
	}})
	d := agent.Definition[struct{}]{Name: "clerk", Model: scripted.New(), Tools: c.Tools()}
	if _, err := agent.New(d, agent.InMemory(), nil); err == nil || !strings.Contains(err.Error(), "without Verify") {
		t.Error(err)
	}
	d.Tools[0].Verify = func(context.Context, agent.Call) (string, bool, error) { return "", false, nil }
	d.Tools[0].Key = func(args json.RawMessage) string { return string(args) }
	if _, err := agent.New(d, agent.InMemory(), nil); err != nil {
		t.Error(err)
	}
	d.Tools = append(d.Tools, d.Tools[0])
	if _, err := agent.New(d, agent.InMemory(), nil); err == nil || !strings.Contains(err.Error(), "has this name") {
		t.Error(err)
	}
}
