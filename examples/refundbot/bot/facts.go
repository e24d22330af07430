package bot

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
)

// facts returns the points that the reply has to tell.
func (s *State) facts() (facts []string) {
	for _, p := range s.Expired {
		facts = append(facts, s.expired(p))
	}
	waiting := s.waiting()
	if s.News {
		facts = append(facts, waiting...)
	}
	if s.Decision != NoOrder || !s.News || len(waiting) == 0 {
		facts = append(facts, s.outcome()...)
	}
	if s.Expects == ExpectsNext && s.Next != nil {
		facts = append(facts, s.offer())
	}
	return facts
}

// expired says that no approval came in time.
func (s *State) expired(p Proposal) string {
	text := fmt.Sprintf("Nobody has approved the refund of %s for order %s in time.", money(p.Cents), p.Order)
	switch {
	case s.Order == p.Order && s.Expects == ExpectsYes && s.Decision == "":
		return text + " Shall I ask again?"
	case s.Order == p.Order:
		return text
	}
	return text + " Ask again if you still want it."
}

// waiting says which requests for other orders than State.Order wait.
func (s *State) waiting() (all []string) {
	for _, p := range s.Proposals {
		if p.Order != s.Order {
			all = append(all, fmt.Sprintf(
				"The refund of %s for order %s waits for the approval of a colleague.", money(p.Cents), p.Order))
		}
	}
	return all
}

// outcome says what has become of the request.
func (s *State) outcome() []string {
	switch s.Decision {
	case NoOrder:
		return []string{"I need the number of the order. It looks like A-1042."}
	case Unknown:
		return []string{"I find no order with this number. Please look at it again: it looks like A-1042."}
	case Which:
		return []string{fmt.Sprintf("You have named the orders %s. Which of them shall I refund?", list(s.Also))}
	case Waiting:
		return s.stillWaiting()
	}
	if text := s.ending(); text != "" {
		return []string{text}
	}
	return nil
}

// ending is outcome for what is decided.
func (s *State) ending() string {
	switch s.Decision {
	case Tell:
		return s.whereabouts()
	case TooLate:
		return fmt.Sprintf("Order %s is closed, and cannot be refunded any more.", s.Order)
	case Propose:
		return fmt.Sprintf(
			"A refund of %s for order %s needs the approval of a colleague, whom I have asked.", s.amount(), s.Order)
	case Refused:
		return fmt.Sprintf("A colleague has looked at order %s, and does not refund it.", s.Order)
	case Paid:
		return s.paid()
	case Declined:
		return fmt.Sprintf("The payment provider has declined the refund for order %s. Nothing was paid.", s.Order)
	case Unsettled:
		return fmt.Sprintf("A colleague takes care of the refund for order %s, and will write to you.", s.Order)
	case Back:
		return fmt.Sprintf("All right, I have taken back the request to refund order %s.", s.Order)
	case Kept:
		return strings.TrimSuffix("All right, I refund nothing for order "+s.Order, " for order ") + "."
	}
	return ""
}

// stillWaiting says which requests wait, and how to take one back.
func (s *State) stillWaiting() (all []string) {
	for _, p := range s.Proposals {
		all = append(all, fmt.Sprintf("The refund for order %s still waits for the approval of a colleague.", p.Order))
	}
	if len(all) > 1 {
		return append(all, "If you do not want one of them any more, name it: no refund for "+s.Proposals[0].Order+".")
	}
	return append(all, "If you do not want it any more, write: no refund.")
}

func (s *State) amount() string { return money(s.Found.Cents) }

func (s *State) paid() string {
	if s.Receipt == "" {
		return fmt.Sprintf("The refund of %s for order %s is paid.", s.amount(), s.Order)
	}
	return fmt.Sprintf("The refund of %s for order %s is paid. The receipt is %s.", s.amount(), s.Order, s.Receipt)
}

// whereabouts says where an order and its refund are, and offers a refund if there may be one.
func (s *State) whereabouts() string {
	text := fmt.Sprintf("Order %s, %s, is %s.", s.Order, s.Found.What, s.Found.Status)
	switch {
	case s.payment() != nil:
		text += " Its refund is paid."
	case s.waits():
		text += " Its refund waits for the approval of a colleague."
	case s.verdict() != nil:
		text += " " + s.verdict().text()
	case s.Expects == ExpectsYes:
		text += " If you do not want it any more, I can refund it. Shall I?"
	}
	return text
}

// text says how the request for an order has ended.
func (v Verdict) text() string {
	switch v.Decision {
	case Refused:
		return "A colleague has refused its refund."
	case Declined:
		return "The payment provider has declined its refund. Nothing was paid."
	}
	return "A colleague takes care of its refund, and will write to you."
}

// offer asks whether to go on with what the customer has also asked for.
func (s *State) offer() string {
	what := "look it up too"
	if s.Next.Category == model.Refund {
		what = "refund it too"
		if s.Decision == Kept || s.Decision == Back {
			what = "refund it"
		}
	}
	if len(s.Next.Orders) == 1 {
		return fmt.Sprintf("You have also named order %s. Shall I %s?", s.Next.Orders[0], what)
	}
	return fmt.Sprintf("You have also named the orders %s. One after the other: for order %s, shall I %s?",
		list(s.Next.Orders), s.Next.Orders[0], what)
}

// list joins names for people.
func list(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
