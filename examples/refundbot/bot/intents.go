package bot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// classify finds out what the customer wants. A short answer continues what the bot has asked.
func (b *bot[S]) classify(ctx context.Context, t *orchestrator.Turn[S]) error {
	s := b.at(&t.State)
	in, used, err := b.Model.Classify(oncehttp.With(ctx, t, "model"), t.History, t.Input.Text)
	t.AddUsage(used)
	if err != nil {
		return err
	}
	if err := t.Record(ctx, turnlog.LLMComplete, map[string]string{"call": "classify"}); err != nil {
		return err
	}
	s.Category = in.Category
	switch {
	case in.No && (in.Category == model.Refund || s.Expects == ExpectsYes):
		s.Category = model.Other
	case in.Yes && in.Order == "" && s.Expects == ExpectsNothing:
		s.Category = model.Other
	case s.Expects == ExpectsYes && in.Yes, s.Expects == ExpectsOrder && in.Order != "":
		s.Category = model.Refund
	}
	if in.Order != "" {
		s.Order = in.Order
	}
	s.Expects = ""
	return nil
}

// order looks the order up.
func (b *bot[S]) order(ctx context.Context, t *orchestrator.Turn[S]) (err error) {
	s := b.at(&t.State)
	s.Found, err = b.Shop.Order(ctx, s.Order)
	return err
}

// customer looks the customer up, while order looks the order up.
func (b *bot[S]) customer(ctx context.Context, t *orchestrator.Turn[S]) (err error) {
	s := b.at(&t.State)
	s.Customer, err = b.Shop.CustomerOf(ctx, s.Order)
	return err
}

// decide decides what becomes of the request.
func (b *bot[S]) decide(_ context.Context, t *orchestrator.Turn[S]) error {
	s := b.at(&t.State)
	switch {
	case s.Order == "":
		s.Decision, s.Expects = NoOrder, ExpectsOrder
	case s.Found == nil:
		s.Decision, s.Order = Unknown, ""
	case s.Category == model.Shipping:
		if s.Decision = Tell; s.Found.Refundable() && s.payment() == nil && !s.waits() {
			s.Expects = ExpectsYes
		}
	default:
		s.Decision = b.refundable(s)
	}
	if s.Decision == Refused {
		s.Expects = ExpectsNothing
	}
	if s.Decision == Propose {
		s.Proposals = append(s.Proposals, Proposal{
			ID: t.RunID, Order: s.Order, Cents: s.Found.Cents, Expires: b.Now().Add(b.ApprovalTTL).UTC().Truncate(time.Second),
		})
	}
	return nil
}

// refundable decides about a refund of an order that exists.
func (b *bot[S]) refundable(s *State) Decision {
	switch {
	case s.payment() != nil:
		s.Receipt = s.payment().Receipt
		return Paid
	case s.Approval != nil && !s.Approval.Approve:
		return Refused
	case !s.Found.Refundable():
		return TooLate
	case s.Approval != nil || s.Found.Cents <= b.Limit:
		return Refund
	case s.waits():
		return Waiting
	}
	return Propose
}

// payment returns what was paid for the order in this session; nil if nothing was.
func (s *State) payment() *Payment {
	for i := range s.Refunded {
		if s.Refunded[i].Order == s.Order {
			return &s.Refunded[i]
		}
	}
	return nil
}

// waits reports whether a person has to approve the refund of the order.
func (s *State) waits() bool {
	return s.proposal(func(p Proposal) bool { return p.Order == s.Order }) != nil
}

// refund pays. Whatever happens, the order is paid once: the ledger knows the order, and so does the provider.
func (b *bot[S]) refund(ctx context.Context, t *orchestrator.Turn[S]) error {
	s := b.at(&t.State)
	receipt, err := b.pay(ctx, t)
	switch {
	case err == nil:
		s.Decision, s.Receipt = Paid, receipt
		s.Refunded = append(s.Refunded, Payment{s.Order, receipt})
	case errors.Is(err, provider.ErrDeclined):
		s.Decision = Declined
	case errors.Is(err, ledger.ErrSkipped): // a person has said so
		s.Decision = Unsettled
	default:
		return err
	}
	return t.Record(ctx, turnlog.ToolReceived, map[string]string{"tool": "refund", "decision": string(s.Decision)})
}

// tries is how often the provider is asked.
const tries = 3

// pay asks the provider some times. If nobody can tell then whether the refund was paid, a person has to.
func (b *bot[S]) pay(ctx context.Context, t *orchestrator.Turn[S]) (receipt string, err error) {
	for try, pause := 1, b.Pause; ; try, pause = try+1, 2*pause {
		receipt, err = b.payOnce(ctx, t)
		doubt, unknown := errors.AsType[*orchestrator.InDoubtError](err)
		if !unknown || doubt.Ask {
			return receipt, err
		}
		if try == tries {
			break
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
	}
	doubt, _ := errors.AsType[*orchestrator.InDoubtError](err)
	if errors.Is(err, lock.ErrHeld) { // another session pays for the same order now: this turn waits for it
		return "", err
	}
	t.Emit("The payment provider does not say whether the refund was paid. A colleague looks into it. ")
	return "", &orchestrator.InDoubtError{RunID: doubt.RunID, Effects: doubt.Effects, Err: doubt.Err, Ask: true}
}

// payOnce pays, or says what has become of the payment.
func (b *bot[S]) payOnce(ctx context.Context, t *orchestrator.Turn[S]) (string, error) {
	found := b.at(&t.State).Found
	pay := func(ctx context.Context, key string) (string, error) {
		if err := t.Record(ctx, turnlog.ToolDispatched, map[string]string{"tool": "refund", "order": found.ID}); err != nil {
			return "", ledger.NotDone(err)
		}
		receipt, err := b.Payments.Refund(ctx, key, found.ID, found.Cents)
		if errors.Is(err, provider.ErrDeclined) {
			return "", ledger.NotDone(err)
		}
		return receipt, err // of any other error nobody knows whether it was paid
	}
	return orchestrator.Once(ctx, t, "refund", pay, &orchestrator.OnceOptions[string]{
		Class: ledger.Verifiable, Key: found.ID, Verify: b.Payments.Find,
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// compose writes the reply, token by token.
func (b *bot[S]) compose(ctx context.Context, t *orchestrator.Turn[S]) error {
	s := b.at(&t.State)
	reply, used, err := b.Model.Compose(oncehttp.With(ctx, t, "model"), model.Prompt{
		History: t.History, Text: t.Input.Text, Category: s.Category, Order: s.Order, Facts: s.facts(),
		Recalled: s.Recalled, Feedback: t.Feedback,
	}, t.Emit)
	t.AddUsage(used)
	if err == nil && reply == "" {
		err = errNoReply
	}
	if err != nil {
		return err
	}
	s.Reply = reply
	return t.Record(ctx, turnlog.LLMComplete, map[string]string{"call": "compose"})
}

// errNoReply fails a turn in place of a reply that says nothing.
var errNoReply = errors.New("the model has said nothing")

// facts returns the points that the reply has to tell.
func (s *State) facts() (facts []string) {
	for _, p := range s.Expired {
		facts = append(facts, fmt.Sprintf(
			"Nobody has approved the refund of %s for order %s in time. Ask again if you still want it.", money(p.Cents), p.Order))
	}
	if fact := s.outcome(); fact != "" {
		facts = append(facts, fact)
	}
	return facts
}

// outcome says what has become of the request.
func (s *State) outcome() string {
	switch s.Decision {
	case NoOrder:
		return "I need the number of the order. It looks like A-1042."
	case Unknown:
		return "I find no order with this number. Please look at it again."
	case Tell:
		return s.whereabouts()
	case TooLate:
		return fmt.Sprintf("Order %s is closed, and cannot be refunded any more.", s.Order)
	case Propose:
		return fmt.Sprintf("A refund of %s for order %s needs the approval of a colleague, whom I have asked.", s.amount(), s.Order)
	case Waiting:
		return fmt.Sprintf("The refund for order %s still waits for the approval of a colleague.", s.Order)
	case Refused:
		return fmt.Sprintf("A colleague has looked at order %s, and does not refund it.", s.Order)
	case Paid:
		return s.paid()
	case Declined:
		return fmt.Sprintf("The payment provider has declined the refund for order %s. Nothing was paid.", s.Order)
	case Unsettled:
		return fmt.Sprintf("A colleague takes care of the refund for order %s, and will write to you.", s.Order)
	}
	return ""
}

func (s *State) amount() string { return money(s.Found.Cents) }

func (s *State) paid() string {
	if s.Receipt == "" {
		return fmt.Sprintf("The refund of %s for order %s is paid.", s.amount(), s.Order)
	}
	return fmt.Sprintf("The refund of %s for order %s is paid. The receipt is %s.", s.amount(), s.Order, s.Receipt)
}

// whereabouts says where an order is, and offers a refund if there may be one.
func (s *State) whereabouts() string {
	text := fmt.Sprintf("Order %s, %s, is %s.", s.Order, s.Found.What, s.Found.Status)
	switch {
	case s.payment() != nil:
		text += " Its refund is paid."
	case s.waits():
		text += " Its refund waits for the approval of a colleague."
	case s.Expects == ExpectsYes:
		text += " If you do not want it any more, I can refund it. Shall I?"
	}
	return text
}
