package bot

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
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
	s.understand(in)
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
		s.Decision = NoOrder
		s.expectNumber()
	case s.Found == nil:
		s.Decision, s.Order = Unknown, ""
		s.expectNumber()
	case s.Category == model.Shipping:
		if s.Decision = Tell; s.Found.Refundable() && s.payment() == nil && s.verdict() == nil && !s.waits() {
			s.Expects = ExpectsYes
		}
	default:
		s.Decision = b.refundable(s)
	}
	switch s.Decision {
	case Refused:
		s.end(Refused)
	case Propose:
		s.end("")
		s.Proposals = append(s.Proposals, Proposal{
			ID: turnhttp.NewQuestionID(), Order: s.Order, Cents: s.Found.Cents,
			Expires: b.Now().Add(b.ApprovalTTL).UTC().Truncate(time.Second),
		})
	}
	if len(s.Also) > 0 {
		s.Next, s.Expects = &Request{s.Category, s.Also}, ExpectsNext
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

// refund pays. Whatever happens, the order is paid once: the ledger knows the order, and so does the provider.
func (b *bot[S]) refund(ctx context.Context, t *orchestrator.Turn[S]) error {
	s := b.at(&t.State)
	receipt, err := b.pay(ctx, t)
	switch {
	case err == nil:
		s.Decision, s.Receipt = Paid, receipt
		s.Refunded = append(s.Refunded, Payment{s.Order, receipt})
		s.end("")
	case errors.Is(err, provider.ErrDeclined):
		s.Decision = Declined
		s.end(Declined)
	case errors.Is(err, ledger.ErrSkipped): // a person has said so
		s.Decision = Unsettled
		s.end(Unsettled)
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
		call := map[string]string{"tool": "refund", "order": found.ID}
		if err := t.Record(ctx, turnlog.ToolDispatched, call); err != nil {
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
		Settles: time.Second, // the provider books a refund within that time, or never
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
