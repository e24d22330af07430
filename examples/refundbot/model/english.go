package model

import (
	"regexp"
	"slices"
	"strings"
)

// What the scripted model knows of English.
var (
	orderID = regexp.MustCompile(`(?i)\b([a-z])(?:[-–‐‑](\d+)|(\d{3,}))\b`)
	// spacedID is an id with a space in place of the hyphen. In small letters it may be any words.
	spacedID = regexp.MustCompile(`\b([A-HJ-Z]) (\d{4,})\b`)
	// numberOnly is an order in another form than the shop writes it: without its letter, or with more of them.
	numberOnly = regexp.MustCompile(`(?i)(?:\b(?:order|number|refund|no\.?)|#)[\s:#]*(?:is |number |no\.? )?#?(\d+)` +
		`([.,]\d|\s*(?:€|\$|eur|usd|dollar|bucks))?|^\W*(?:\w+\W+){0,3}(\d{4,})\W*$|\b([a-z]{2,8}-\d+)\b`)
	another = regexp.MustCompile(`(?i)\b(other|another|different|second|previous|last) (order|one|parcel|` +
		`purchase|package)\b`)
)

// thing is what a text wants a refund for, if it does not say the number of the order.
var thing = regexp.MustCompile(`(?i)\b(?:refund\w*|money back|return\w*|cancel\w*|want|need)(?: on| for|` +
	` of)? (?:the|my|this|that) (\w+)`)

// anyThing are words that may mean the order of before.
var anyThing = []string{
	"order", "parcel", "package", "purchase", "delivery", "item", "thing", "stuff", "product", "money", "refund", "one",
	"whole", "full", "amount", "price", "please", "now", "too", "as", "reimbursement", "any",
}

// otherThing reports whether a text wants a refund for something that may be another order than before.
func otherThing(text string) bool {
	found := thing.FindStringSubmatch(text)
	return found != nil && !slices.Contains(anyThing, strings.ToLower(found[1]))
}

// What asks for a refund. A text with a noun of refunds is a request if it also wishes, or is short.
var (
	refundWords = regexp.MustCompile(`(?i)\b(refund\w*|(my|the|some) money|money back|reimburs\w*|charge ?back|` +
		`charged twice|` +
		`pay (me|it) back)\b`)
	wish = regexp.MustCompile(`(?i)\b(want\w*|would like|i'?d like|need\w*|please|pls|give|get|can (i|you|we)|` +
		`could (i|you|we)|` +
		`may i|would you|will you|issue|send|start|process|request\w*|demand\w*|claim\w*|entitled|deserve|must|` +
		`should|let'?s)\b|` +
		`(^|[,.;:!?]\s*|\band )(just |now |then |so )?refund (it|order|me|my|the|this|[a-z]-?\d)`)
	takeBack = regexp.MustCompile(`(?i)\b(return(ing)? (it|this|that|them|the|my|order|[a-z]-?\d+)|` +
		`send(ing)? (it|this|that|them|order|the \w+|my \w+|[a-z]-?\d+) back|` +
		`cancel(l?ing)? ((my|the|this|that|all|our) )?(\w+ )?(order|purchase|delivery|parcel|package|it|` +
		`[a-z]-?\d+)|` +
		`((don'?t|dont|do not) (want|need)|no longer (want|need)) ((it|this|that|them) (any ?more|any longer)|` +
		`(my|the|order|[a-z]-?\d+)))`)
	past = regexp.MustCompile(`(?i)\b(was|were|got|been|had|have|has|already) (\w+ )?refunded\b|\bgot (a|my|the|` +
		`his|her|their) refund\b|` +
		`\b(not|n'?t|never|yet to) (\w+ )?(receive|received|got|gotten|get|seen|see|had) (\w+ )?(refund|money)`)
	receipt = regexp.MustCompile(`(?i)\b(receipt|invoice|information|info|details|confirmation|proof)\s+` +
		`(for|of|on|about)\s+((the|my|a|your|this|that)\s+)?(refund|money back)|` +
		`\brefund\w*\s+(receipt|invoice|information|info|details|confirmation)\b|` +
		`\b(confirm|check|explain|know about|tell me about|ask about)\s+((the|my|a|your|this|that)\s+)?refund`)
	aboutRefunds = regexp.MustCompile(`(?i)\b(polic(y|ies)|question about|wonder\w*|curious|hypothetical\w*|` +
		`in general|in theory|if)\b`)
)

// What asks. A question refunds nothing: "has A-1007 been refunded?" gets an answer.
var (
	greeting = `^\W*((and|so|but|hi|hello|hey|ok|okay|please|well|um|sorry|excuse me|yes|no|there|then)\b\W*)*`
	asksWhen = regexp.MustCompile(`(?i)` + greeting + `(where|when|why|has|have|had|was|were|is|are|did|am)\b`)
	asksHow  = regexp.MustCompile(`(?i)` + greeting + `(how|what|which|who|do|does)\b`)
)

var (
	shippingWords = regexp.MustCompile(`(?i)\b(where'?s?|ship\w*|deliver\w*|track\w*|arriv\w*|parcel|package|` +
		`late|status|eta|lost|missing|stolen|` +
		`broken|damaged|defective|faulty|wrong|cracked|torn|never came|not come|not working|doesn'?t work|` +
		`does not work)\b`)
	newsWords = regexp.MustCompile(`(?i)\b(any|no|what) (news|updates?|progress|word|answer|decision)\b|\b(news|` +
		`updates?|progress)\W*$|` +
		`\bhow('?s| is| are| does) (it|that|this|things|my|the) ?(\w+ )?(going|coming|look\w*|stand\w*|doing|` +
		`progressing)\b|` +
		`\bstill waiting\b|\bhow (much )?long(er)?\b|\bwhat('?s| is) (happening|taking|going on)\b|` +
		`\bwhat happened\b|` +
		`\b(is it|are you|is that) (done|ready|finished|through|paid|approved|decided)\b|` +
		`\b(has|did|have) (\w+ ){1,3}(decide\w*|approve\w*|answer\w*|look\w*)\b|\bgone through\b`)
)

var (
	yes = regexp.MustCompile(`(?i)^\W*(yes|yeah|yep|yup|y|sure|ok|okay|alright|please\W*$|please do|go ahead|` +
		`do it|do so|correct|of course|` +
		`absolutely|definitely|fine|exactly|right)\b`)
	no = regexp.MustCompile(`(?i)^\W*((ok|okay|well|oh|actually|please)\W+)*(no|nope|nah|n|not|stop|don'?t|` +
		`do not|please (don'?t|do not|stop|leave))\b|` +
		`\b(never ?mind|leave it|forget it|rather not|changed my mind)\b|\bcancel\W*$`)
	// butNo takes a part of a yes back.
	butNo = regexp.MustCompile(`(?i)n't\b|\b(no|not|never|dont)\b`)
	// wavers is neither yes nor no.
	wavers = regexp.MustCompile(`(?i)\b(let me (think|see|check|ask)|yes (and|or) no|` +
		`wait|hold on|later|not yet|not now|maybe|` +
		`perhaps|not sure|unsure|` +
		`think about|in a (moment|minute|second)|tomorrow)\b`)
)

// What only needs a friendly word.
var (
	boldWords = regexp.MustCompile(`(?i)\b(guarantee\w*|promis\w*)\b`)
	hello     = regexp.MustCompile(`(?i)^\W*(hi|hello|hey|good (morning|afternoon|evening))\b`)
	thanks    = regexp.MustCompile(`(?i)\b(thanks|thank you|thx|cheers|great|perfect|wonderful)\b`)
	bye       = regexp.MustCompile(`(?i)\b(bye|goodbye|see you)\b`)
	askedWho  = regexp.MustCompile(`(?i)\b(who|what) are you\b|\bare you (a|an) \w+|\bhow are you\b`)
	human     = regexp.MustCompile(`(?i)\b(human|person|agent|manager|supervisor|colleague|someone|somebody)\b`)
	angry     = regexp.MustCompile(`(?i)\b(useless|stupid|terrible|awful|angry|scam|ridiculous|hate|` +
		`disappoint\w*|complain\w*)\b`)
	help = regexp.MustCompile(`(?i)\b(help|can you do|what now|how does this work)\b`)
)

// ordersIn returns the ids of the orders that a text names, as the shop writes them, each once.
func ordersIn(text string) (all []string) {
	type place struct {
		at int
		id string
	}
	var places []place
	for _, m := range orderID.FindAllStringSubmatchIndex(text, -1) {
		digits := 4
		if m[digits] < 0 {
			digits = 6
		}
		places = append(places, place{m[0], strings.ToUpper(text[m[2]:m[3]]) + "-" + clip(text[m[digits]:m[digits+1]])})
	}
	for _, m := range spacedID.FindAllStringSubmatchIndex(text, -1) {
		places = append(places, place{m[0], text[m[2]:m[3]] + "-" + clip(text[m[4]:m[5]])})
	}
	slices.SortStableFunc(places, func(a, b place) int { return a.at - b.at })
	for _, p := range places {
		if !slices.Contains(all, p.id) {
			all = append(all, p.id)
		}
	}
	return all
}

// clip bounds what is kept of a number that belongs to no order.
func clip(number string) string { return number[:min(len(number), 20)] }

// numberIn returns the number of an order in another form than the shop writes it; "" if there is none. So an order
// that the bot cannot find is not mistaken for the one of before.
func numberIn(text string) string {
	found := numberOnly.FindStringSubmatch(text)
	if found == nil || found[2] != "" { // an amount
		return ""
	}
	return clip(found[1] + found[3] + found[4])
}

// category returns what the words of a text are about. A text that may be no request is no refund: a question costs
// less than a refund that was not asked for.
func category(text string) string {
	about := refundWords.MatchString(text) || takeBack.MatchString(text)
	want := refusal(text)
	switch {
	case want == wantsNone:
		return Refund // with Intent.No
	case !about && (shippingWords.MatchString(text) || newsWords.MatchString(text)):
		return Shipping
	case !about:
		return Other
	case want == mayWantNone, receipt.MatchString(text):
		return Shipping
	case asksWhen.MatchString(text), past.MatchString(text), newsWords.MatchString(text):
		return Shipping
	case asksHow.MatchString(text), aboutRefunds.MatchString(text):
		return inGeneral(text)
	case wish.MatchString(text), takeBack.MatchString(text), len(strings.Fields(text)) <= 6:
		return Refund
	}
	return inGeneral(text)
}

// inGeneral returns the category of a text about refunds that asks for none.
func inGeneral(text string) string {
	if len(ordersIn(text)) > 0 {
		return Shipping
	}
	return Other
}

// mixed reports whether a text that names several orders wants different things of them.
func mixed(text string) bool {
	wants := make(map[string]bool)
	for clause := range clauses(text) {
		if len(ordersIn(clause)) == 0 {
			continue
		}
		want := category(clause)
		if refusal(clause) == wantsNone || strings.HasPrefix(strings.ToLower(strings.TrimSpace(clause)), "not ") {
			want = "none"
		}
		wants[want] = true
	}
	delete(wants, Other)
	return len(wants) > 1
}

var clauseEnds = regexp.MustCompile(`(?i)[.?!;,\n]+\s|\b(and|but|or)\b`)

// clauses yields the parts of a text.
func clauses(text string) func(yield func(string) bool) { return parts(text, clauseEnds) }

// parts yields what is between the ends.
func parts(text string, ends *regexp.Regexp) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		at := 0
		for _, m := range ends.FindAllStringIndex(text, -1) {
			if !yield(text[at:m[0]]) {
				return
			}
			at = m[1]
		}
		yield(text[at:])
	}
}
