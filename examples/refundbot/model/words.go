package model

import (
	"slices"
	"strings"
)

// The categories of an Intent.
const (
	Refund   = "refund"
	Shipping = "shipping"
	Other    = "other"
)

// An Intent classifies a text.
type Intent struct {
	// Category is Refund if the text asks for a refund, or wants to give back or cancel an order. It is Shipping if the
	// text asks where an order is, or how it stands with a request. It is Other for all else, and for a text that only
	// answers, such as "yes please" or an order id: the dialog knows what was asked.
	Category string

	// Order is the id of the order that the text names, such as A-1042, or a number without its letter. It is "" if
	// the text names none.
	Order string

	// Also holds the further orders that the text names, for which it wants the same. If it wants different things of
	// several orders, Order is "" and Also has all of them.
	Also []string

	// Another says that the text means another order than before, and does not name it.
	Another bool

	// Yes and No say that the text agrees or refuses: "yes please", "no thanks". With Refund, No says that the customer
	// wants no refund, or none any more.
	Yes, No bool
}

// classify reads a text.
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

// summarize returns a summary in which the categories and the orders are found again. told is how an agent tells a
// conversation to its model.
func summarize(told string) string {
	var orders, about []string
	earlier := ""
	if rest, ok := strings.CutPrefix(told, "[summary of what came before]\n"); ok {
		earlier, told, _ = strings.Cut(rest, "\n")
		earlier += " "
	}
	for _, id := range ordersIn(told) {
		if !strings.Contains(earlier, id) {
			orders = append(orders, id)
		}
	}
	for part := range strings.SplitSeq(told, "\n\n") {
		text, user := strings.CutPrefix(strings.TrimSpace(part), "[user]\n")
		if c := category(text); user && c != Other && !slices.Contains(about, c) {
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
