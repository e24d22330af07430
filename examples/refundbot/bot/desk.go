package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Payments pays refunds, once for each key.
type Payments interface {
	Refund(ctx context.Context, key, order string, cents int) (receipt string, err error)
	Find(ctx context.Context, key string) (receipt string, found bool, err error)
}

// A Refund is what the tools refund and ask_desk are given.
type Refund struct {
	Order string `json:"order" jsonschema:"the number of the order, such as A-1042"`
	Cents int    `json:"cents" jsonschema:"what the order has cost, in cents"`
}

// An Asked names an order.
type Asked struct {
	Order string `json:"order" jsonschema:"the number of the order, such as A-1042"`
}

// A desk has the tools, and an agent whose only tool waits for a person. A customer goes on talking meanwhile: the
// person is waited for in a session of the desk, which is named after the customer's and the order.
type desk struct {
	Options
	tell  func(ctx context.Context, session string, in orchestrator.Input) error
	agent *agent.Agent[struct{}]
}

// CaseOf returns the session of the desk for a refund.
func CaseOf(session, order string) string { return session + "/" + order }

// definition is the agent of the desk.
func (d *desk) definition() agent.Definition[struct{}] {
	return agent.Definition[struct{}]{
		Name: "desk", Version: version1,
		Model: scripted.New(scripted.On(`order (\S+) for (\d+) cents`,
			scripted.Call("refund", `{"order":"{1}","cents":{2}}`), scripted.Say("{result}"))),
		Tools:   []agent.Tool{d.refund(true)},
		Deliver: d.deliver,
	}
}

// deliver tells the customer's session that the desk has decided. It comes at least once for each turn.
func (d *desk) deliver(ctx context.Context, o *agent.Outcome[struct{}]) error {
	if o.Status == agent.Paused || o.Text == "" { // nobody has decided, or the customer has taken it back
		return nil
	}
	at := strings.LastIndexByte(o.Session, '/')
	return d.tell(ctx, o.Session[:max(at, 0)], orchestrator.Input{
		RequestID: "desk-" + o.Run, Text: model.Noted + o.Session[at+1:] + ".", Origin: orchestrator.FromSystem,
	})
}

// all returns the tools of the agent that talks with customers.
func (d *desk) all() []agent.Tool {
	return []agent.Tool{
		agent.Read("order", "looks an order up", func(ctx context.Context, in Asked) (*Order, error) {
			return found(d.Shop.Order(ctx, in.Order))
		}),
		agent.Read("customer", "looks its customer up", func(ctx context.Context, in Asked) (*Customer, error) {
			return found(d.Shop.CustomerOf(ctx, in.Order))
		}),
		d.refund(false),
		agent.Effect[Refund, string]{
			Name: "ask_desk", Description: "asks a colleague to agree to a refund above 100.00, and does not wait",
			Class: ledger.Idempotent, Run: d.ask,
		}.Tool(),
		agent.Read("decision", "says what the desk has decided about an order", d.decision),
		agent.Effect[Asked, string]{
			Name: "take_back", Description: "takes a request back that waits for the desk",
			Class: ledger.Idempotent, Run: d.takeBack,
		}.Tool(),
	}
}

// found returns what was found, or an error for the model.
func found[T any](v *T, err error) (*T, error) {
	if err == nil && v == nil {
		err = errors.New("there is no such order")
	}
	return v, err
}

// refund returns the tool that pays. Whatever happens, an order is paid once: the ledger knows it, and so does the
// provider. That of the desk waits for a person.
func (d *desk) refund(approved bool) agent.Tool {
	e := agent.Effect[Refund, string]{
		Name: "refund", Description: "pays an order of up to 100.00 back, and returns the receipt",
		Class: ledger.Verifiable, Verify: d.find, Key: func(r Refund) string { return r.Order },
		Settles: time.Second, // the provider books a refund within that time, or never
		Run: func(ctx context.Context, key string, r Refund) (string, error) {
			if !approved && r.Cents > d.Limit {
				return "", ledger.NotDone(errors.New("that much needs the desk: use ask_desk"))
			}
			return d.pay(ctx, key, r)
		},
	}
	if approved {
		e.Description, e.Until, e.Approve = "pays an order back", d.ApprovalTTL, func(Refund) bool { return true }
	}
	return e.Tool()
}

// fits returns an error if the shop does not refund that.
func (d *desk) fits(ctx context.Context, r Refund) error {
	o, err := found(d.Shop.Order(ctx, r.Order))
	if err == nil && (!o.Refundable() || o.Cents != r.Cents) {
		err = errors.New("the shop does not refund that")
	}
	return ledger.NotDone(err)
}

// tries is how often the provider is asked.
const tries = 3

// pay pays. If the provider does not say what has become of it, pay asks again, and then a person has to say.
func (d *desk) pay(ctx context.Context, key string, r Refund) (receipt string, err error) {
	if err := d.fits(ctx, r); err != nil {
		return "", err
	}
	call := map[string]string{"tool": "refund", "order": r.Order}
	if err := agent.From(ctx).Record(ctx, turnlog.ToolDispatched, call); err != nil {
		return "", ledger.NotDone(err)
	}
	for try, pause := 1, d.Pause; ; try, pause = try+1, 2*pause {
		receipt, err = d.Payments.Refund(ctx, key, r.Order, r.Cents)
		switch {
		case err == nil:
			return receipt, nil
		case errors.Is(err, provider.ErrDeclined):
			return "", ledger.NotDone(err)
		}
		if receipt, landed, _ := d.Payments.Find(ctx, key); landed {
			return receipt, nil
		}
		if try == tries || !sleep(ctx, pause) {
			break
		}
	}
	if ctx.Err() != nil {
		return "", err
	}
	agent.From(ctx).Emit("The payment provider does not say whether the refund was paid. A colleague looks into it. ")
	return "", agent.InDoubt(err)
}

// find asks the provider some times whether it has paid.
func (d *desk) find(ctx context.Context, key string) (receipt string, landed bool, err error) {
	for try, pause := 1, d.Pause; ; try, pause = try+1, 2*pause {
		receipt, landed, err = d.Payments.Find(ctx, key)
		if err == nil || try == tries || !sleep(ctx, pause) {
			break
		}
	}
	if ctx.Err() == nil {
		err = agent.InDoubt(err)
	}
	return receipt, landed, err
}

// sleep reports false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ask begins a session of the desk, or another turn in it.
func (d *desk) ask(ctx context.Context, key string, r Refund) (string, error) {
	if err := d.fits(ctx, r); err != nil {
		return "", err
	}
	in := orchestrator.Input{RequestID: key, Text: fmt.Sprintf("Refund order %s for %d cents?", r.Order, r.Cents)}
	_, err := d.agent.Say(ctx, CaseOf(agent.From(ctx).Session, r.Order), in, nil)
	if err != nil && !errors.Is(err, agent.ErrPending) {
		return "", err
	}
	return "a colleague is asked, and decides later", nil
}

// decision says how the desk stands to a refund.
func (d *desk) decision(ctx context.Context, in Asked) (string, error) {
	s, _, err := d.agent.Get(ctx, CaseOf(agent.From(ctx).Session, in.Order))
	switch {
	case errors.Is(err, agent.ErrUnknown):
		return "nobody was asked", nil
	case err == nil && (s.Status == agent.Paused || s.Output == ""):
		return "a colleague is asked, and decides later", nil
	}
	return s.Output, err
}

// takeBack ends the wait for a person.
func (d *desk) takeBack(ctx context.Context, _ string, in Asked) (string, error) {
	_, err := d.agent.Drop(ctx, CaseOf(agent.From(ctx).Session, in.Order))
	if errors.Is(err, agent.ErrUnknown) {
		return "nobody was asked", nil
	}
	return "it is taken back", err
}
