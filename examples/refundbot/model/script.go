package model

import (
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/message"
)

// What the scripted model knows of English.
var (
	orderID = regexp.MustCompile(`(?i)\b([a-z])-?(\d{3,6})\b`)

	refundWords = regexp.MustCompile(`(?i)\b(refund(ed|s)?|money back|reimburse\w*|return (it|this|the|my|order)|` +
		`send (it|this) back|charged twice)\b`)
	noRefund = regexp.MustCompile(`(?i)\b(no|not|without|don'?t (want|need)|do not (want|need)) (a |any |the )?refund\b`)

	shippingWords = regexp.MustCompile(`(?i)\b(where|ship\w*|deliver\w*|track\w*|arriv\w*|parcel|package|late|status)\b`)

	yes = regexp.MustCompile(`(?i)^\W*(yes|yeah|yep|sure|ok|okay|please do|go ahead|do it|correct|of course)\b`)
	no  = regexp.MustCompile(`(?i)^\W*(no|nope|not now|never mind|leave it|stop|forget it)\b`)

	boldWords = regexp.MustCompile(`(?i)\b(guarantee\w*|promis\w*)\b`)
	hello     = regexp.MustCompile(`(?i)^\W*(hi|hello|hey|good (morning|afternoon|evening))\b`)
	thanks    = regexp.MustCompile(`(?i)\b(thanks|thank you|cheers)\b`)
	bye       = regexp.MustCompile(`(?i)\b(bye|goodbye|see you)\b`)
	askedWho  = regexp.MustCompile(`(?i)\b(who|what) are you\b|\bare you (a|an) (bot|human|robot|person|machine)\b`)
	help      = regexp.MustCompile(`(?i)\b(help|can you do)\b`)
)

// classify reads a text as Classify says.
func classify(history []message.Message, text string) Intent {
	in := Intent{Category: category(text), Order: namedOrder(text)}
	if in.Category != Shipping { // "ok, where is it?" agrees to nothing
		in.No = no.MatchString(text) || noRefund.MatchString(text)
		in.Yes = yes.MatchString(text) && !in.No
	}
	if in.Category == Other && (in.Yes || in.No || onlyOrder(text)) {
		in.Category = lastCategory(history)
	}
	return in
}

// category returns what the words of a text are about.
func category(text string) string {
	switch {
	case noRefund.MatchString(text):
		return Other
	case refundWords.MatchString(text):
		return Refund
	case shippingWords.MatchString(text):
		return Shipping
	}
	return Other
}

// namedOrder returns the first order id of a text, as the shop writes it; "" if there is none.
func namedOrder(text string) string {
	found := orderID.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return strings.ToUpper(found[1]) + "-" + found[2]
}

// onlyOrder reports whether a text says little more than an order id: it answers the question for one.
func onlyOrder(text string) bool {
	return namedOrder(text) != "" && len(strings.Fields(text)) <= 6
}

// lastCategory returns what the customer, or a summary, has last been about.
func lastCategory(history []message.Message) string {
	for _, m := range slices.Backward(history) {
		if m.Role == message.RoleAssistant {
			continue
		}
		if c := category(said(m)); c != Other {
			return c
		}
	}
	return Other
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

// talk answers what is neither about a refund nor about a parcel.
func talk(text string) string {
	switch {
	case askedWho.MatchString(text):
		return "I am the support assistant of this shop, a program. A colleague looks at all that I may not decide."
	case bye.MatchString(text):
		return "Goodbye, and thank you for writing."
	case thanks.MatchString(text):
		return "You are welcome. Is there anything else?"
	case no.MatchString(text):
		return "All right. Write to me whenever you need something."
	case hello.MatchString(text), help.MatchString(text):
		return "Hello! I can refund an order, or tell you where a parcel is. Which order is it about?"
	}
	return "I am afraid that I cannot help with that. I can refund an order, or tell you where a parcel is."
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
		for _, found := range orderID.FindAllString(text, -1) {
			if id := namedOrder(found); !slices.Contains(orders, id) && !strings.Contains(earlier, id) {
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
