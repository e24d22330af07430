package bot

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// ConciergeState is the state of a concierge.
type ConciergeState struct {
	Category string `json:"category,omitempty"`
	// Asked is the session of the refund bot that the concierge has asked.
	Asked string `json:"asked,omitempty"`
	Reply string `json:"reply,omitempty"`
}

// Concierge is a bot that has the refund bot as a tool. It answers small talk by itself, and hands the rest over. The
// name tells concierges with different tools apart.
func Concierge(name string, m model.Model, refunds orchestrator.Tool) orchestrator.Definition[ConciergeState] {
	c := &concierge{m, refunds}
	return orchestrator.Definition[ConciergeState]{
		Name: name, Version: "1", Iterate: true, First: "listen",
		Intents: orchestrator.Intents[ConciergeState]{
			"listen":  {Run: c.listen, Then: c.next},
			"refunds": {Run: c.hand, Description: refunds.Description, Next: orchestrator.End},
			"chat":    {Run: c.chat, Next: orchestrator.End},
		},
		Begin: func(_ context.Context, t *orchestrator.Turn[ConciergeState]) error {
			t.State = ConciergeState{}
			return nil
		},
	}
}

type concierge struct {
	model   model.Model
	refunds orchestrator.Tool
}

func (c *concierge) listen(ctx context.Context, t *orchestrator.Turn[ConciergeState]) error {
	in, used, err := c.model.Classify(oncehttp.With(ctx, t, "model"), nil, t.Input.Text)
	t.AddUsage(used)
	t.State.Category = in.Category
	if in.Yes || in.No || in.Order != "" { // it continues what the refund bot has asked
		t.State.Category = model.Refund
	}
	return err
}

func (c *concierge) next(_ context.Context, t *orchestrator.Turn[ConciergeState]) (orchestrator.Next, error) {
	if t.State.Category == model.Other {
		return orchestrator.To("chat"), nil
	}
	return orchestrator.To("refunds"), nil
}

// hand asks the refund bot. What that costs counts in this turn too.
func (c *concierge) hand(ctx context.Context, t *orchestrator.Turn[ConciergeState]) error {
	args, err := json.Marshal(map[string]string{"input": t.Input.Text})
	if err != nil {
		return err
	}
	said, err := c.refunds.Ask(withCustomer(ctx, t.Session), "call-1", args)
	if errors.Is(err, orchestrator.ErrSuspended) {
		t.State.Reply = "A colleague looks into your refund, and will write to you."
		return nil
	}
	if err != nil {
		return err
	}
	t.State.Reply, t.State.Asked = said.Text, said.Session
	return nil
}

func (c *concierge) chat(ctx context.Context, t *orchestrator.Turn[ConciergeState]) (err error) {
	var used orchestrator.Usage
	p := model.Prompt{Text: t.Input.Text, Category: t.State.Category}
	t.State.Reply, used, err = c.model.Compose(oncehttp.With(ctx, t, "model"), p, t.Emit)
	t.AddUsage(used)
	return err
}

type customerKey struct{}

func withCustomer(ctx context.Context, session string) context.Context {
	return context.WithValue(ctx, customerKey{}, session)
}

// AsTool offers the refund bot to a concierge. If bound is set, all calls of a customer go to one session, which
// remembers the order. Otherwise each call has a session of its own.
func AsTool[S any](o *orchestrator.Orchestrator[S], reply func(*S) string, bound bool) orchestrator.Tool {
	say := func(r *orchestrator.Result[S]) string { return reply(&r.State) }
	var session func(context.Context) (string, error)
	if bound {
		session = func(ctx context.Context) (string, error) {
			customer, ok := ctx.Value(customerKey{}).(string)
			if !ok {
				return "", orchestrator.ErrNoSession
			}
			return "customer/" + customer, nil
		}
	}
	return o.Tool("refunds", "Refunds orders, and says where they are.", say, session)
}
