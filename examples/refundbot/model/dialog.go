package model

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A dialog is how a conversation stands.
type dialog struct {
	read func(text string) Intent // nil: classify

	order     string      // the number of the order that the customer has spoken of last
	expects   expectation // what a short answer such as "yes please" or "A-1042" is about
	proposals []proposal  // wait for the desk
	paid      map[string]string
	verdicts  map[string]decision // how requests have ended otherwise: refused, declined or unsettled
	next      *request            // what the customer has also asked for, if the bot has offered to go on with it

	now moment
}

// A moment is what belongs to one turn.
type moment struct {
	text, category string
	found          *order
	also           []string // orders that were named beside the one
	news           bool     // asked without the number of an order
	decision       decision
	receipt        string
}

// An expectation names the thing that the bot has asked the customer for.
type expectation string

const (
	expectsOrder expectation = "order" // the number of the order to refund
	expectsPlace expectation = "place" // the number of the order that the customer has asked about
	expectsYes   expectation = "yes"   // whether to refund the order
	expectsNext  expectation = "next"  // whether to go on with next
)

// A decision says what becomes of a request.
type decision string

const (
	noOrder   decision = "no order"      // the customer has to name the order
	unknown   decision = "unknown order" // there is no such order
	tell      decision = "tell"          // where the order is
	tooLate   decision = "too late"      // it cannot be refunded any more
	propose   decision = "propose"       // the desk has to agree
	waiting   decision = "waiting"       // the desk has not agreed yet
	expired   decision = "expired"       // nobody has agreed in time
	refused   decision = "refused"       // the desk has refused
	refund    decision = "refund"        // to be paid
	isPaid    decision = "paid"          // it is paid
	declined  decision = "declined"      // the payment provider has declined
	unsettled decision = "unsettled"     // a person pursues it without the bot
	which     decision = "which"         // the customer wants different things of several orders
	back      decision = "back"          // the request for a refund is taken back
	kept      decision = "kept"          // the customer wants no refund
)

// An order is what the tool of that name says.
type order struct {
	ID     string `json:"id"`
	What   string `json:"what"`
	Cents  int    `json:"cents"`
	Status string `json:"status"`
}

// A proposal is a refund that the desk has to agree to.
type proposal struct {
	order string
	cents int
}

// A request is a wish of the customer about some orders.
type request struct {
	category string
	orders   []string
}

// atOnce is the amount in cents up to which the desk need not agree.
const atOnce = 100_00

// take goes on with a turn. It returns the calls to make; nil if the reply is due.
func (d *dialog) take(t turn) []call {
	d.now = moment{text: t.text}
	if summary, ok := strings.CutPrefix(t.text, "[summary of what was said before]"); ok {
		if all := ordersIn(summary); len(all) > 0 {
			d.order = all[len(all)-1]
		}
		return nil
	}
	if id, ok := strings.CutPrefix(t.text, Noted); ok {
		return d.decided(strings.TrimSuffix(id, "."), t)
	}
	read := d.read
	if read == nil {
		read = classify
	}
	d.understand(read(t.text))
	switch now := &d.now; {
	case now.decision == back:
		if _, done := t.results["take_back"]; !done {
			return []call{{"take_back", byOrder{d.order}}}
		}
		return nil
	case now.category == Other, now.decision != "":
		return nil
	case d.order != "":
		r, looked := t.results["order"]
		if !looked {
			return []call{{"order", byOrder{d.order}}, {"customer", byOrder{d.order}}}
		}
		if !r.Failed && json.Unmarshal([]byte(r.Text), &now.found) != nil {
			now.found = nil
		}
	}
	d.decide()
	return d.act(t)
}

// act does what is decided.
func (d *dialog) act(t turn) []call {
	now := &d.now
	switch now.decision {
	case refund:
		r, done := t.results["refund"]
		if !done {
			return []call{{"refund", byAmount{d.order, now.found.Cents}}}
		}
		d.end(r.Text, r.Failed)
	case propose:
		r, done := t.results["ask_desk"]
		if !done {
			return []call{{"ask_desk", byAmount{d.order, now.found.Cents}}}
		}
		if r.Failed {
			d.end(r.Text, true)
			return nil
		}
		delete(d.verdicts, d.order)
		d.proposals = append(d.proposals, proposal{d.order, now.found.Cents})
	}
	return nil
}

// understand takes what the customer has said. A short answer continues what the bot has asked, and nothing else: "ok"
// begins no refund that was not offered.
func (d *dialog) understand(in Intent) {
	expected, next, before := d.expects, d.next, d.order
	d.expects, d.next = "", nil
	now := &d.now
	now.category, now.also = in.Category, in.Also
	named := in.Order != ""
	// "Ok, and A-1007?" and "ok, where is it?" agree to nothing.
	agrees := in.Yes && in.Category != Shipping && (!named || in.Order == before)
	if named || in.Another {
		d.order = in.Order
	}
	switch {
	case !named && len(in.Also) > 0:
		now.category, d.order, now.decision, d.expects = Refund, "", which, expectsOrder
	case in.No && in.Category == Refund:
		d.takeBack(named)
	case in.No:
		now.category = Other
		if expected == "" && len(d.proposals) > 0 { // "never mind" takes nothing back by itself
			now.category, now.decision = Refund, waiting
		}
	case expected == expectsNext && next != nil && !named && (agrees || in.Category == next.category):
		now.category, d.order, now.also = next.category, next.orders[0], next.orders[1:]
	case expected == expectsYes && agrees, expected == expectsOrder && named && in.Category == Other:
		now.category = Refund
	case named && in.Category == Other:
		now.category = Shipping
	}
	now.news = now.category == Shipping && !named
}

// takeBack ends the request for the order, unless it is paid. If the customer has not named the order, the only request
// that waits is meant.
func (d *dialog) takeBack(named bool) {
	now := &d.now
	unclear := !named && d.waits() == nil
	if unclear && len(d.proposals) == 1 {
		d.order = d.proposals[0].order
	}
	_, done := d.paid[d.order]
	switch {
	case unclear && len(d.proposals) > 1:
		now.decision = waiting // the reply says how to take one back
	case done: // decide tells of it
	case d.waits() != nil:
		d.drop()
		now.decision = back
	default:
		now.decision = kept
	}
	if now.decision != "" && len(now.also) > 0 {
		d.next, d.expects = &request{Refund, now.also}, expectsNext
	}
}

// decide decides what becomes of the request.
func (d *dialog) decide() {
	now := &d.now
	_, done := d.paid[d.order]
	switch {
	case d.order == "":
		now.decision = noOrder
		d.expectNumber()
	case now.found == nil:
		now.decision, d.order = unknown, ""
		d.expectNumber()
	case now.category == Shipping:
		now.decision = tell
		if now.found.Status != "closed" && !done && d.verdicts[d.order] == "" && d.waits() == nil {
			d.expects = expectsYes
		}
	default:
		now.decision = d.refundable()
	}
	if len(now.also) > 0 {
		d.next, d.expects = &request{now.category, now.also}, expectsNext
	}
}

// refundable decides about a refund of an order that exists.
func (d *dialog) refundable() decision {
	receipt, done := d.paid[d.order]
	switch {
	case done:
		d.now.receipt = receipt
		return isPaid
	case d.now.found.Status == "closed":
		return tooLate
	case d.now.found.Cents <= atOnce:
		return refund
	case d.waits() != nil:
		return waiting
	}
	return propose
}

// expectNumber waits for the number of an order, for what the customer wants of it.
func (d *dialog) expectNumber() {
	if d.expects = expectsPlace; d.now.category == Refund {
		d.expects = expectsOrder
	}
}

// decided goes on when the desk has decided. What the customer was asked stays open.
func (d *dialog) decided(id string, t turn) []call {
	r, looked := t.results["decision"]
	if !looked {
		return []call{{"decision", byOrder{id}}}
	}
	now := &d.now
	if d.expects == expectsYes && d.order != id { // the customer has not answered yet
		d.next, d.expects = &request{Refund, []string{d.order}}, expectsNext
	}
	d.order, now.category = id, Refund
	p := d.waits()
	if p == nil { // it was taken back meanwhile, or the customer has written this
		now.category, now.text = Other, "ok"
		return nil
	}
	now.found = &order{ID: id, Cents: p.cents}
	if strings.Contains(r.Text, "decides later") { // so has the customer written
		now.decision = waiting
		return nil
	}
	d.drop()
	if strings.Contains(r.Text, "in time") {
		now.decision = expired
		if d.expects == "" {
			d.expects = expectsYes
		}
		return nil
	}
	d.end(r.Text, !receiptIn.MatchString(r.Text))
	return nil
}

var receiptIn = regexp.MustCompile(`\bR-\S+$|it was done`)

// end notes how the request for the order has ended, as the refund says.
func (d *dialog) end(text string, failed bool) {
	now := &d.now
	switch {
	case !failed:
		if now.receipt = receiptIn.FindString(text); !strings.HasPrefix(now.receipt, "R-") {
			now.receipt = ""
		}
		now.decision = isPaid
		d.paid = with(d.paid, d.order, now.receipt)
		delete(d.verdicts, d.order)
		return
	case strings.Contains(text, "declined"):
		now.decision = declined
	case strings.Contains(text, "refused"):
		now.decision = refused
	default:
		now.decision = unsettled
	}
	d.verdicts = with(d.verdicts, d.order, now.decision)
}

func with[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = v
	return m
}

// waits returns the proposal of the order; nil if the desk is not asked.
func (d *dialog) waits() *proposal {
	if i := slices.IndexFunc(d.proposals, d.meant); i >= 0 {
		return &d.proposals[i]
	}
	return nil
}

// drop forgets the proposal of the order.
func (d *dialog) drop() { d.proposals = slices.DeleteFunc(slices.Clone(d.proposals), d.meant) }

func (d *dialog) meant(p proposal) bool { return p.order == d.order }
