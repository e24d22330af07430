package model

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/message"
)

// classify reads a text as Classify says.
func classify(text string) Intent {
	text = plain(text)
	orders, none := ordersIn(text), refusal(text) == wantsNone
	in := Intent{Category: category(text)}
	switch {
	case len(orders) > 1 && mixed(text):
		return Intent{Category: Refund, Also: orders}
	case len(orders) > 0:
		in.Order, in.Also = orders[0], orders[1:]
	default:
		in.Order = numberIn(text)
		in.Another = in.Order == "" && (another.MatchString(text) ||
			in.Category == Refund && !none && otherThing(text))
	}
	if len(in.Also) == 0 {
		in.Also = nil
	}
	switch {
	case none:
		in.No = true
	case in.Category == Shipping, wavers.MatchString(text): // "ok, where is it?" agrees to nothing
	case in.Category == Other:
		in.No = no.MatchString(text)
		in.Yes = yes.MatchString(text) && !in.No && !butNo.MatchString(text)
	default:
		in.Yes = yes.MatchString(text) && !butNo.MatchString(text)
	}
	return in
}

// namedOrder returns the first order id of a text, as the shop writes it; "" if there is none.
func namedOrder(text string) string {
	if all := ordersIn(text); len(all) > 0 {
		return all[0]
	}
	return ""
}

// compose returns a reply to the prompt.
func compose(p Prompt) string {
	facts := slices.Clone(p.Facts)
	if len(facts) == 0 {
		facts = []string{talk(p.Text)}
	}
	if boldWords.MatchString(p.Text) {
		if p.Feedback == "" {
			facts = append(facts, "I guarantee that all of this is done by tomorrow.")
		} else {
			facts = append(facts, "I cannot say more than that for certain.")
		}
	}
	return strings.Join(slices.Insert(facts, 0, opening(p)...), " ")
}

// opening returns how a reply begins, if it begins with more than its facts.
func opening(p Prompt) []string {
	switch {
	case len(p.Facts) == 0:
		return nil
	case p.Feedback != "":
		return []string{"Let me be exact."}
	case p.Category == Refund && p.Order == "":
		return []string{"I am sorry to hear that."}
	case p.Category == Refund:
		return []string{"Thank you for your patience."}
	case p.Category == Shipping:
		return []string{"I have looked it up for you."}
	}
	return nil
}

// whatICan says what the bot is for.
const whatICan = "I can refund an order, or tell you where a parcel is."

// talk answers what is neither about a refund of an order nor about a parcel.
func talk(text string) string {
	text = plain(text)
	switch {
	case refundWords.MatchString(text), takeBack.MatchString(text):
		return "I refund up to 100.00 at once. Above that, a colleague has to approve. " +
			"If you want a refund, write so, with the number of the order."
	case askedWho.MatchString(text):
		return "I am the support assistant of this shop, a program. A colleague looks at all that I may not decide."
	case human.MatchString(text):
		return "I am a program, and cannot put you through to a colleague. " + whatICan
	case angry.MatchString(text):
		return "I am sorry about that. " + whatICan + " Which order is it about?"
	case bye.MatchString(text):
		return "Goodbye, and thank you for writing."
	case wavers.MatchString(text):
		return "Take your time. Write to me whenever you need something."
	case no.MatchString(text):
		return "All right. Write to me whenever you need something."
	case thanks.MatchString(text):
		return "You are welcome. Is there anything else?"
	case hello.MatchString(text), help.MatchString(text):
		return "Hello! " + whatICan + " Which order is it about?"
	case yes.MatchString(text):
		return "All right. Is there anything else?"
	}
	return "I am afraid that I cannot help with that. " + whatICan
}

// summarize returns a summary in which classify finds the categories and the orders again.
func summarize(messages []message.Message) string {
	var orders, about []string
	earlier := ""
	for _, m := range messages {
		text := said(m)
		if m.Role == message.RoleSystem && earlier == "" {
			earlier = text + " "
		}
		for _, id := range ordersIn(text) {
			if !slices.Contains(orders, id) && !strings.Contains(earlier, id) {
				orders = append(orders, id)
			}
		}
		if c := category(text); m.Role == message.RoleUser && c != Other && !slices.Contains(about, c) {
			about = append(about, c)
		}
	}
	s := "The customer has talked with us"
	if len(about) > 0 {
		s = "The customer has asked about: " + strings.Join(about, ", ")
	}
	if len(orders) > 0 {
		s += "; orders named: " + strings.Join(orders, ", ")
	}
	return earlier + s + "."
}
