package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/mcp"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// caller returns an agent whose model calls one tool, and then says its result.
func caller(t *testing.T, st agent.Stores, c *mcp.Client, calls string) *agent.Agent[struct{}] {
	t.Helper()
	model := scripted.New(scripted.On("go", scripted.Call(calls, `{"order":"A"}`), scripted.Say("{result}")))
	tools := c.Tools()
	for i := range tools {
		if tools[i].Class == ledger.Verifiable {
			tools[i].Verify = func(context.Context, agent.Call) (string, bool, error) { return "", false, nil }
		}
	}
	a, err := agent.New(agent.Definition[struct{}]{Name: "clerk", Model: model, Tools: tools}, st,
		&orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a
}

// answered says something, and answers what the session asks, one after another.
func answered(t *testing.T, a *agent.Agent[struct{}], session string, all ...agent.Answer) *agent.Outcome[struct{}] {
	t.Helper()
	o, err := a.Say(t.Context(), session, agent.Text("go"), nil)
	for _, ans := range all {
		if err != nil || o.Status != agent.Paused || len(o.Pending) != 1 || o.Pending[0].Kind != ans.Kind {
			t.Fatalf("%+v, %v", o, err)
		}
		o, err = a.Answer(t.Context(), session, o.Pending[0].Call.ID, ans)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var (
	yes  = agent.Approve("ann")
	seat = agent.Provide("ann", `{"seat":"12A"}`)
	meal = agent.Provide("ann", `{"meal":"fish"}`)
)

// A tool that a person agrees to asks for two things. They are asked one after another, also of another process. The
// server gets both answers, its state and the same key.
func TestAsks(t *testing.T) {
	c, says := start(t, "shop", nil)
	st := agent.InMemory()
	o := answered(t, caller(t, st, c, "book"), "s", yes)
	p := o.Pending[0]
	if p.Asks != "Which seat?" || p.Call.Name != "book" || !strings.Contains(string(p.Form), "maxLength") {
		t.Errorf("%+v", p)
	}
	first := says.await(t, "called book")
	again, _ := start(t, "shop", nil)
	a := caller(t, st, again, "book")
	_, err := a.Answer(t.Context(), "s", p.Call.ID, agent.Provide("ann", `{"seat":"12345"}`))
	if !errors.Is(err, agent.ErrKind) {
		t.Error(err)
	}
	o, err = a.Answer(t.Context(), "s", p.Call.ID, seat)
	if err != nil || o.Status != agent.Paused || o.Pending[0].Asks != "Which meal?" {
		t.Fatalf("%+v, %v", o, err)
	}
	o, err = caller(t, st, c, "book").Answer(t.Context(), "s", o.Pending[0].Call.ID, meal)
	if err != nil || o.Text != "held A map[seat:12A] map[meal:fish]" {
		t.Errorf("%+v, %v", o, err)
	}
	if second := says.await(t, "called book"); first == "" || second != first {
		t.Errorf("the server has got the keys %q and %q", first, second)
	}
	o = answered(t, a, "declined", yes, agent.Decline("ann", "no"), meal)
	if !strings.Contains(o.Text, "no booking: &{") || !strings.Contains(o.Text, "decline") {
		t.Errorf("%+v", o)
	}
}

// A server asks within a call. It is told cancel. A call that may run again is made again, with the answer.
func TestAsksWithin(t *testing.T) {
	decline := agent.Decline("ann", "")
	late := decline
	late.By = agent.OutOfTime
	for _, x := range []struct {
		name, lie string
		class     ledger.Class
		answers   []agent.Answer
		want      string
		heard     []string
	}{
		{"pure", "asks", ledger.Pure, []agent.Answer{seat}, `booked {"seat":"12A"}`, []string{"cancel", "accept"}},
		{"idempotent", "asks", ledger.Idempotent, []agent.Answer{seat}, `booked {"seat":"12A"}`, []string{"cancel", "accept"}},
		{"error", "asks rpc", ledger.Idempotent, []agent.Answer{seat}, `booked {"seat":"12A"}`, []string{"cancel", "accept"}},
		{"declined", "asks", ledger.Idempotent, []agent.Answer{decline}, "no seat: decline", []string{"cancel", "decline"}},
		{"out of time", "asks", ledger.Idempotent, []agent.Answer{late}, "no seat: cancel", []string{"cancel", "cancel"}},
		{"may not run again", "asks", ledger.Ask, nil, "no seat: cancel", []string{"cancel"}},
		{"goes on", "asks goes on", ledger.Idempotent, nil, "booked ", []string{"cancel"}},
		{"without parameters", "asks nothing", ledger.Pure, nil, "booked ", []string{""}},
		{"of nothing", "asks null", ledger.Pure, nil, "booked ", []string{""}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c, says := start(t, "liar "+x.lie, &mcp.Options{Classes: map[string]ledger.Class{"ok": x.class}})
			o := answered(t, caller(t, agent.InMemory(), c, "ok"), "s", x.answers...)
			if o.Status != agent.Completed || strings.TrimSpace(o.Text) != strings.TrimSpace(x.want) {
				t.Errorf("%+v", o)
			}
			for _, want := range x.heard {
				if got := says.await(t, "heard"); got != want {
					t.Errorf("the server has heard %q, want %q", got, want)
				}
			}
		})
	}
}

// A tool of the SDK's server asks over HTTP. Without sessions the server speaks the newest protocol: each class asks.
// With sessions it speaks an older one and asks within the call, An older server without sessions cannot
// ask.
func TestAsksHTTP(t *testing.T) {
	const newest, older = "2026-07-28", "2025-11-25"
	asks := map[ledger.Class]bool{ledger.Pure: true, ledger.Idempotent: true}
	for _, plain := range []bool{true, false} {
		for _, class := range []ledger.Class{ledger.Pure, ledger.Idempotent, ledger.Ask, ledger.Verifiable} {
			t.Run(fmt.Sprint("plain ", plain, " ", class), func(t *testing.T) {
				h, server := overHTTP(plain)
				defer hangUp(server)
				spoken := make(chan string, 10)
				server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
					return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
						if of, ok := r.GetSession().(*sdk.ServerSession); ok && method == "tools/call" {
							spoken <- of.InitializeParams().ProtocolVersion
						}
						return next(ctx, method, r)
					}
				})
				c := dial(t, newSite(t, h).URL, &mcp.Options{
					Only: []string{"book"}, Classes: map[string]ledger.Class{"book": class},
				})
				a := caller(t, agent.InMemory(), c, "book")
				want, calls := older, 1
				if plain || asks[class] {
					first := answered(t, a, "s").Pending[0]
					given, then := seat, meal
					if first.Asks == "Which meal?" { // the questions of one call come in any order
						given, then = meal, seat
					}
					o, err := a.Answer(t.Context(), "s", first.Call.ID, given)
					if err != nil || o.Status != agent.Paused {
						t.Fatalf("%+v, %v", o, err)
					}
					o, err = a.Answer(t.Context(), "s", o.Pending[0].Call.ID, then)
					if err != nil || o.Text != "held A map[seat:12A] map[meal:fish]" {
						t.Errorf("%+v, %v", o, err)
					}
					calls = 2
				} else if o := answered(t, a, "s"); o.Status != agent.Completed ||
					!strings.Contains(o.Text, "no booking: &{") ||
					!strings.Contains(o.Text, "cancel") {
					t.Errorf("%+v", o)
				}
				if plain {
					want = newest
				}
				if len(spoken) != calls {
					t.Errorf("%d calls, want %d", len(spoken), calls)
				}
				for range len(spoken) {
					if version := <-spoken; version != want {
						t.Errorf("the protocol is %s, want %s", version, want)
					}
				}
			})
		}
	}
}

// A server wants a person to open an address first. Then the call is made again, and otherwise it is not.
func TestAsksLinks(t *testing.T) {
	c, says := start(t, "shop", nil)
	a := caller(t, agent.InMemory(), c, "link")
	o := answered(t, a, "declined", yes)
	if asks := o.Pending[0].Asks; asks != "Log in: https://bank.example/login" || o.Pending[0].Form != nil {
		t.Errorf("%+v", o.Pending)
	}
	says.await(t, "called link")
	o, err := a.Answer(t.Context(), "declined", o.Pending[0].Call.ID, agent.Decline("ann", "why?"))
	if err != nil || o.Text != "not executed: declined. why?" {
		t.Errorf("%+v, %v", o, err)
	}
	other, _ := start(t, "shop", nil)
	o = answered(t, caller(t, agent.InMemory(), other, "link"), "s", yes, agent.Provide("ann", "done"))
	if o.Text != "linked" {
		t.Errorf("%+v", o)
	}
}

// Two calls are under way, and a server asks about one of them: nobody can know which. A state may be one of another
// version.
func TestAsksLies(t *testing.T) {
	c, says := start(t, "liar asks two", &mcp.Options{Classes: map[string]ledger.Class{"ok": ledger.Pure}})
	answers := make(chan error)
	for range 2 {
		go func() {
			_, err := tool(t, c, "ok").Run(t.Context(), agent.Call{ID: "c"})
			answers <- err
		}()
	}
	for range 2 {
		if err := <-answers; err == nil || err.Error() != "no seat: cancel" {
			t.Error(err)
		}
	}
	if heard := says.await(t, "heard"); heard != "cancel" {
		t.Error(heard)
	}
	for _, bad := range []string{"", "{", `{"Requests":3}`} {
		caller := agent.Caller{Asked: &agent.Question{State: json.RawMessage(bad)}, Answer: &seat}
		if _, err := mcp.Resumed(&caller); !ledger.IsNotDone(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
