package bot

import (
	"slices"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
)

// understand takes what the customer has said. A short answer continues what the bot has asked, and nothing else: "ok"
// begins no refund that was not offered.
func (s *State) understand(in model.Intent) {
	expected, next, before := s.Expects, s.Next, s.Order
	s.Expects, s.Next = "", nil
	s.Category, s.Also = in.Category, in.Also
	named := in.Order != ""
	// "Ok, and A-1007?" and "ok, where is it?" agree to nothing.
	agrees := in.Yes && in.Category != model.Shipping && (!named || in.Order == before)
	if named || in.Another {
		s.Order = in.Order
	}
	switch {
	case !named && len(in.Also) > 0:
		s.Category, s.Order, s.Decision, s.Expects = model.Refund, "", Which, ExpectsOrder
	case in.No && in.Category == model.Refund:
		s.takeBack(named)
	case in.No:
		s.Category = model.Other
		if expected == "" && len(s.Proposals) > 0 { // "never mind" takes nothing back by itself
			s.Category, s.Decision = model.Refund, Waiting
		}
	case expected == ExpectsNext && next != nil && !named && (agrees || in.Category == next.Category):
		s.Category, s.Order, s.Also = next.Category, next.Orders[0], next.Orders[1:]
	case expected == ExpectsYes && agrees, expected == ExpectsOrder && named && in.Category == model.Other:
		s.Category = model.Refund
	case named && in.Category == model.Other:
		s.Category = model.Shipping
	}
	s.News = s.Category == model.Shipping && !named
	if s.Category == model.Other && len(s.Expired) > 0 {
		s.Order, s.Expects = s.Expired[0].Order, ExpectsYes
	}
}

// takeBack ends the request for the order, unless it is paid. If the customer has not named the order, the only request
// that waits is meant.
func (s *State) takeBack(named bool) {
	unclear := !named && !s.waits()
	if unclear && len(s.Proposals) == 1 {
		s.Order = s.Proposals[0].Order
	}
	switch {
	case unclear && len(s.Proposals) > 1:
		s.Decision = Waiting // the reply says how to take one back
	case s.payment() != nil: // decide tells of it
	case s.waits():
		s.keep(func(p Proposal) bool { return p.Order != s.Order })
		s.Decision = Back
	default:
		s.Decision = Kept
	}
	if s.Decision != "" && len(s.Also) > 0 {
		s.Next, s.Expects = &Request{model.Refund, s.Also}, ExpectsNext
	}
}

// expectNumber waits for the number of an order, for what the customer wants of it.
func (s *State) expectNumber() {
	if s.Expects = ExpectsPlace; s.Category == model.Refund {
		s.Expects = ExpectsOrder
	}
}

// end notes how the request for the order has ended; "" forgets it.
func (s *State) end(d Decision) {
	s.Verdicts = slices.DeleteFunc(slices.Clone(s.Verdicts), func(v Verdict) bool { return v.Order == s.Order })
	if d != "" {
		s.Verdicts = append(s.Verdicts, Verdict{s.Order, d})
	}
}

// verdict returns how the request for the order has ended; nil if it has not, or is paid.
func (s *State) verdict() *Verdict {
	for i := range s.Verdicts {
		if s.Verdicts[i].Order == s.Order {
			return &s.Verdicts[i]
		}
	}
	return nil
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
