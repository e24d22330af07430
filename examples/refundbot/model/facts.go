package model

import (
	"fmt"
	"strings"
)

// compose returns the reply. fed says that the reply before must not be sent.
func (d *dialog) compose(fed bool) string {
	facts := d.facts()
	all := d.opening(len(facts), fed)
	if len(facts) == 0 {
		facts = []string{talk(d.now.text)}
	}
	all = append(all, facts...)
	if boldWords.MatchString(d.now.text) {
		if fed {
			all = append(all, "I cannot say more than that for certain.")
		} else {
			all = append(all, "I guarantee that all of this is done by tomorrow.")
		}
	}
	return strings.Join(all, " ")
}

// opening returns how a reply begins, if it begins with more than its facts.
func (d *dialog) opening(facts int, fed bool) []string {
	switch {
	case facts == 0:
		return nil
	case fed:
		return []string{"Let me be exact."}
	case d.now.category == Refund && d.order == "":
		return []string{"I am sorry to hear that."}
	case d.now.category == Refund:
		return []string{"Thank you for your patience."}
	case d.now.category == Shipping:
		return []string{"I have looked it up for you."}
	}
	return nil
}

// facts returns the points that the reply has to tell.
func (d *dialog) facts() (facts []string) {
	others := d.others()
	if d.now.news {
		facts = append(facts, others...)
	}
	if d.now.decision != noOrder || !d.now.news || len(others) == 0 {
		facts = append(facts, d.outcome()...)
	}
	if d.expects == expectsNext && d.next != nil {
		facts = append(facts, d.offer())
	}
	return facts
}

// others says which requests for other orders wait.
func (d *dialog) others() (all []string) {
	for _, p := range d.proposals {
		if p.order != d.order {
			all = append(all, fmt.Sprintf(
				"The refund of %s for order %s waits for the approval of a colleague.", money(p.cents), p.order))
		}
	}
	return all
}

// outcome says what has become of the request.
func (d *dialog) outcome() []string {
	switch d.now.decision {
	case noOrder:
		return []string{"I need the number of the order. It looks like A-1042."}
	case unknown:
		return []string{"I find no order with this number. Please look at it again: it looks like A-1042."}
	case which:
		return []string{fmt.Sprintf("You have named the orders %s. Which of them shall I refund?", list(d.now.also))}
	case waiting:
		return d.stillWaiting()
	}
	if text := d.ending(); text != "" {
		return []string{text}
	}
	return nil
}

// ending is outcome for what is decided.
func (d *dialog) ending() string {
	switch d.now.decision {
	case tell:
		return d.whereabouts()
	case tooLate:
		return fmt.Sprintf("Order %s is closed, and cannot be refunded any more.", d.order)
	case propose:
		return fmt.Sprintf(
			"A refund of %s for order %s needs the approval of a colleague, whom I have asked.", d.amount(), d.order)
	case expired:
		text := fmt.Sprintf("Nobody has approved the refund of %s for order %s in time.", d.amount(), d.order)
		if d.expects == expectsYes {
			return text + " Shall I ask again?"
		}
		return text + " Ask again if you still want it."
	case refused:
		return fmt.Sprintf("A colleague has looked at order %s, and does not refund it.", d.order)
	case isPaid:
		text := fmt.Sprintf("The refund of %s for order %s is paid.", d.amount(), d.order)
		if d.now.receipt != "" {
			text += fmt.Sprintf(" The receipt is %s.", d.now.receipt)
		}
		return text
	case declined:
		return fmt.Sprintf("The payment provider has declined the refund for order %s. Nothing was paid.", d.order)
	case unsettled:
		return fmt.Sprintf("A colleague takes care of the refund for order %s, and will write to you.", d.order)
	case back:
		return fmt.Sprintf("All right, I have taken back the request to refund order %s.", d.order)
	case kept:
		return strings.TrimSuffix("All right, I refund nothing for order "+d.order, " for order ") + "."
	}
	return ""
}

// stillWaiting says which requests wait, and how to take one back.
func (d *dialog) stillWaiting() (all []string) {
	for _, p := range d.proposals {
		all = append(all, fmt.Sprintf("The refund for order %s still waits for the approval of a colleague.", p.order))
	}
	if len(all) > 1 {
		return append(all, "If you do not want one of them any more, name it: no refund for "+d.proposals[0].order+".")
	}
	return append(all, "If you do not want it any more, write: no refund.")
}

// amount returns what the order has cost, for people.
func (d *dialog) amount() string { return money(d.now.found.Cents) }

func money(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// whereabouts says where an order and its refund are, and offers a refund if there may be one.
func (d *dialog) whereabouts() string {
	text := fmt.Sprintf("Order %s, %s, is %s.", d.order, d.now.found.What, d.now.found.Status)
	_, done := d.paid[d.order]
	switch {
	case done:
		return text + " Its refund is paid."
	case d.waits() != nil:
		return text + " Its refund waits for the approval of a colleague."
	case d.verdicts[d.order] == refused:
		return text + " A colleague has refused its refund."
	case d.verdicts[d.order] == declined:
		return text + " The payment provider has declined its refund. Nothing was paid."
	case d.verdicts[d.order] == unsettled:
		return text + " A colleague takes care of its refund, and will write to you."
	case d.expects == expectsYes:
		return text + " If you do not want it any more, I can refund it. Shall I?"
	}
	return text
}

// offer asks whether to go on with what the customer has also asked for.
func (d *dialog) offer() string {
	what := "look it up too"
	if d.next.category == Refund {
		what = "refund it too"
		if d.now.decision == kept || d.now.decision == back {
			what = "refund it"
		}
	}
	if len(d.next.orders) == 1 {
		return fmt.Sprintf("You have also named order %s. Shall I %s?", d.next.orders[0], what)
	}
	return fmt.Sprintf("You have also named the orders %s. One after the other: for order %s, shall I %s?",
		list(d.next.orders), d.next.orders[0], what)
}

// list joins names for people.
func list(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
