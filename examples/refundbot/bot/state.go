package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// State is the state of a session.
type State struct {
	// Order is the number of the order that the customer has spoken of last.
	Order string `json:"order,omitempty"`

	// Expects is what the bot has asked for, and a short answer such as "yes please" or "A-1042" is about.
	Expects Expectation `json:"expects,omitempty"`

	// Proposals wait for approval.
	Proposals []Proposal `json:"proposals,omitempty"`

	// Refunded are the refunds that were paid in this session. Nobody is asked again about them.
	Refunded []Payment `json:"refunded,omitempty"`

	// Verdicts are the other ends of requests in this session, one for each order.
	Verdicts []Verdict `json:"verdicts,omitempty"`

	// Next is what the customer has also asked for, if the bot has offered to go on with it.
	Next *Request `json:"next,omitempty"`

	// Begin clears what follows: it belongs to one turn.

	Category string     `json:"category,omitempty"`
	Found    *Order     `json:"found,omitempty"`
	Customer *Customer  `json:"customer,omitempty"`
	Approval *Approval  `json:"approval,omitempty"`
	Expired  []Proposal `json:"expired,omitempty"`
	Also     []string   `json:"also,omitempty"` // orders that were named beside Order
	News     bool       `json:"news,omitempty"` // asked without the number of an order
	Decision Decision   `json:"decision,omitempty"`
	Receipt  string     `json:"receipt,omitempty"`
	Recalled []string   `json:"recalled,omitempty"`
	Reply    string     `json:"reply,omitempty"`
}

// An Expectation names the thing that the bot has asked the customer for.
type Expectation string

const (
	// ExpectsOrder waits for the number of the order to refund.
	ExpectsOrder Expectation = "order"
	// ExpectsPlace waits for the number of the order that the customer has asked about.
	ExpectsPlace Expectation = "place"
	// ExpectsYes waits for yes or no: the bot has offered to refund State.Order.
	ExpectsYes Expectation = "yes"
	// ExpectsNext waits for yes or no: the bot has offered to go on with State.Next.
	ExpectsNext Expectation = "next"
)

// A Decision says what becomes of a request.
type Decision string

const (
	NoOrder   Decision = "no order"      // the customer has to name the order
	Unknown   Decision = "unknown order" // there is no such order
	Tell      Decision = "tell"          // where the order is
	TooLate   Decision = "too late"      // it cannot be refunded any more
	Propose   Decision = "propose"       // a person has to approve
	Waiting   Decision = "waiting"       // a person has not approved yet
	Refused   Decision = "refused"       // a person has refused
	Refund    Decision = "refund"        // to be paid
	Paid      Decision = "paid"          // it is paid
	Declined  Decision = "declined"      // the payment provider has declined
	Unsettled Decision = "unsettled"     // a person pursues it without the bot
	Which     Decision = "which"         // the customer wants different things of several orders
	Back      Decision = "back"          // the request for a refund is taken back
	Kept      Decision = "kept"          // the customer wants no refund
)

// A Proposal is a refund that a person has to approve.
type Proposal struct {
	ID      string    `json:"id"`
	Order   string    `json:"order"`
	Cents   int       `json:"cents"`
	Expires time.Time `json:"expires"`
}

// Text is the question to the person.
func (p Proposal) Text() string {
	return fmt.Sprintf("Refund %s for order %s?", money(p.Cents), p.Order)
}

// A Payment is a refund that was paid.
type Payment struct {
	Order   string `json:"order"`
	Receipt string `json:"receipt,omitempty"`
}

// A Verdict is how a request ended, other than by a payment.
type Verdict struct {
	Order    string   `json:"order"`
	Decision Decision `json:"decision"` // Refused, Declined or Unsettled
}

// A Request is a wish of the customer about some orders.
type Request struct {
	Category string   `json:"category"`
	Orders   []string `json:"orders"`
}

// An Approval answers a proposal. Without By it is the Data of the input.
type Approval struct {
	Proposal string `json:"proposal"`
	Approve  bool   `json:"approve"`
	By       string `json:"by,omitempty"`
}

// money returns an amount for people.
func money(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// State2 is the state of the bot of version 2. It has a currency, and what version 1 had is a level deeper.
type State2 struct {
	Case     State  `json:"case"`
	Currency string `json:"currency"`
}

// The versions of the stored states.
const (
	Version1 = "1"
	Version2 = "2"
)

// currency is the only currency that version 1 could mean.
const currency = "EUR"

// migrate1 lets version 1 go on with what version 2 has stored: a deploy may be taken back.
func migrate1(ctx context.Context, cp checkpoint.Checkpoint) (State, error) {
	if cp.Version != Version2 {
		return orchestrator.Strict[State](ctx, cp)
	}
	s, err := orchestrator.Strict[State2](ctx, cp)
	if err == nil && s.Currency != currency {
		err = &orchestrator.DriftError{Members: []string{"currency"}}
	}
	return s.Case, err
}

// migrate2 lets version 2 go on with what version 1 has stored.
func migrate2(ctx context.Context, cp checkpoint.Checkpoint) (State2, error) {
	if cp.Version != Version1 {
		return orchestrator.Strict[State2](ctx, cp)
	}
	s, err := orchestrator.Strict[State](ctx, cp)
	return State2{Case: s, Currency: currency}, err
}

// approvalIn returns the approval in an input; nil if the input is no answer, whatever its Data says. Who has answered
// is the By of the input.
func approvalIn(in orchestrator.Input) (*Approval, error) {
	if in.Origin != orchestrator.FromAnswer {
		return nil, nil
	}
	var a Approval
	if err := json.Unmarshal(in.Data, &a); err != nil {
		return nil, &orchestrator.InputError{Field: "data", Reason: "no approval: " + err.Error()}
	}
	a.By = in.By
	return &a, nil
}
