package model

import (
	"regexp"
	"strings"
)

// What a text says against a refund.
const (
	wantsOne    = iota // nothing
	mayWantNone        // it may refuse, or complain: it is neither a request nor takes one back
	wantsNone
)

// noRefund takes a refund back, or wants none. Between its two words may stand what changes nothing.
var noRefund = regexp.MustCompile(`(?i)\b(no|not|never|without|don'?t|dont|won'?t|stop|cancel\w*|withdraw|` +
	`forget|drop|undo|revoke|abort|instead of|rather than|take back|(all|everything|anything) but)\s+` +
	`((want|need|wish|to|a|an|any|the|my|your|that|be|you|give|get|me|ask|asked|asking|for|make|pay|start|issue|` +
	`request|have)\s+){0,6}` +
	`(refund\w*|money back|request|cancel\w*|(return|send) (it|this|that|the|my|order|[a-z]-?\d+)\b)|` +
	`\bkeep (it|this|that|them|order|[a-z]-?\d+|(the|my) (order|parcel|package))\b|` +
	`\b(but not|only not|except|apart from|other than) (for )?(order )?[a-z]-?\d+\b`)

// wonders asks with a negation, and refuses nothing: "why not refund B-1?"
var wonders = regexp.MustCompile(`(?i)` + greeting + `(why (not|no|do|did|does|is|are|was|were|has|have|ca|could|` +
	`wo|would|should)(n'?t)?|(ca|could|wo|would|did|do|does|is|are|has|have)n'?t (i|you|we|it|there|my))\b`)

// complains says that a refund has not come.
var complains = regexp.MustCompile(`(?i)\b(still|yet|so far|had|have|has|got|gotten|received|seen|there'?s|` +
	`there is)\s+` +
	`((had|have|got|received|seen|been|there|is|was)\s+){0,3}no\s+(refund|money)|` +
	`\bno\s+(refund|money)\b.*\b(yet|so far|until now|up to now)\b|` +
	`\b(did|have|has|had|can|could)(\s*not|n'?t)\s+(\w+\s+)?(receive\w*|got|gotten|get|see|seen|had|find|give\w*|` +
	`paid|pay|made|make|issue\w*)\s+(\w+\s+){0,2}(refund\w*|money)|` +
	`\b(did|have|has|had|is|was|were|are)(\s*not|n'?t)\s+(\w+\s+)?refund|` +
	`\b(do|does)(\s+not|n'?t)\s+(have|see)\s+(\w+\s+)?(refund|money)|` +
	`\bnever\s+(got|received|saw|had)\s+(\w+\s+)?(refund|money)|` +
	`\b(refused|rejected|declined|denied|ignored)\b`)

var (
	negation = regexp.MustCompile(`(?i)n't\b|\b(dont|doesnt|didnt|wont|cannot|no longer|not|never|neither|nor|refuse|` +
		`reject|ignore|decline|avoid|skip|leave out|hold (off|back|my|the))\b`)
	// refunding is what a negation before it refuses.
	refunding = regexp.MustCompile(`(?i)\b(refund\w*|money back|reimburs\w*|charge ?back|pay (me|it) back|` +
		`(return|send|cancel)(l?ing)? (it|this|that|them|the|my|order|[a-z]-?\d+))\b`)
	// wishes begin anew: "A-1 has not come I want a refund" may have lost a full stop.
	wishes = regexp.MustCompile(`(?i)\b(i (want|need|demand)|i'?d like|i would like|give me)\b`)
	// endsInNo is a second thought.
	endsInNo = regexp.MustCompile(`(?i)\b(no|nope|no thanks|no thank you|no way|or not|better not|rather not)\W*$`)
	// refusalEnds are the ends of what a negation reaches: not "or".
	refusalEnds = regexp.MustCompile(`(?i)[.?!;,\n]+\s|\b(and|but|so|because|since|therefore|which|please)\b`)
)

// refusal returns what a text says against a refund. A negation refuses what comes after it in its clause.
func refusal(text string) int {
	switch {
	case wonders.MatchString(text), complains.MatchString(text):
		return mayWantNone
	case noRefund.MatchString(text):
		return wantsNone
	}
	found := wantsOne
	if endsInNo.MatchString(text) {
		found = mayWantNone
	}
	for clause := range parts(text, refusalEnds) {
		about, not := refunding.FindStringIndex(clause), negation.FindStringIndex(clause)
		switch {
		case about == nil || not == nil:
		case not[0] < about[0] && !wishes.MatchString(clause[not[1]:about[0]]):
			return wantsNone
		default:
			found = mayWantNone
		}
	}
	return found
}

// plain returns a text with the apostrophes of a typewriter.
func plain(text string) string { return strings.ReplaceAll(text, "’", "'") }
