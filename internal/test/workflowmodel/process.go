package workflowmodel

import "math/bits"

// A move is a kind of step of the model.
type move uint8

const (
	startRun move = iota + 1
	claimDue
	claimAgain
	takeOver
	sendSignal
	writeEntry
	// The moves above are requests.
	read
	finish
	handBack
	cancel
	pause
	resume
	crash
	outage
	flushLog
	tick
	arrive
	lose
	beginChild
	beginCancel
	count
)

// An answer is what the store says to a request.
type answer struct {
	granted uint8
	added   bool
	receipt receipt
	verdict verdict
}

// execute executes a request.
func (w *Scenario) execute(s *state, l *letter) (a answer, bad string) {
	id := int(l.run)
	switch l.kind {
	case startRun:
		a.added = w.start(s, id, l.process, l.nonce)
	case claimDue, claimAgain, takeOver:
		a.granted, bad = w.claim(s, l)
	case sendSignal:
		a.receipt = w.send(s, id, l.signal)
	case writeEntry:
		a.verdict, bad = w.write(s, id, &l.stay, l.process)
	}
	return a, bad
}

// answered gives an answer to the sender of the request.
func (w *Scenario) answered(s *state, l *letter, a answer) (bad string) {
	switch l.kind {
	case startRun:
		s.seen[l.run].start = 2
		if a.added {
			return w.adopt(s, l, 1<<l.run)
		}
	case claimDue, takeOver:
		return w.adopt(s, l, a.granted)
	case claimAgain:
		return w.answeredAgain(s, l, a.granted)
	case sendSignal:
		s.seen[l.run].sent[l.signal-1] = a.receipt
	case writeEntry:
		return w.told(s, l, a.verdict)
	}
	return ""
}

// unanswered tells the sender that there is no answer.
func (w *Scenario) unanswered(s *state, l *letter) {
	switch l.kind {
	case startRun:
		s.seen[l.run].start = 1
		fallthrough
	case claimDue, takeOver:
		if p := &s.process[l.process-1]; !w.rules.noAgain {
			p.note(l.nonce)
		}
	case claimAgain:
		q := s.process[l.process-1].question(l.again)
		if q.asked = l.nonce; w.rules.againOnce {
			*q = question{}
		}
	case sendSignal:
		s.seen[l.run].sent[l.signal-1] = unanswered
	}
}

// answeredAgain adopts what a question has got. If the question was sent before, that one may have got more under the
// same nonce, and what all have got is a question of its own.
func (w *Scenario) answeredAgain(s *state, l *letter, granted uint8) (bad string) {
	p := &s.process[l.process-1]
	q := p.question(l.again)
	asked := q.asked
	if w.rules.againOnce {
		*q = question{}
	}
	if asked == 0 || w.rules.againForgets {
		return w.adopt(s, l, granted)
	}
	if p.note(l.nonce); w.rules.againAdopts {
		return w.adopt(s, l, granted)
	}
	return ""
}

// note notes a nonce that may own something.
func (p *process) note(nonce uint8) {
	if p.question(nonce) == nil {
		*p.question(0) = question{nonce: nonce}
	}
}

// open reports whether what a question without an answer has got is not asked for yet.
func (p *process) open(nonce uint8) bool {
	q := p.question(nonce)
	return q.asked != 0 && p.question(q.asked) == nil
}

// room returns how many questions there is room for, beside those that become of a question without an answer.
func (p *process) room() (room int) {
	for _, q := range p.unanswered {
		if q.nonce == 0 {
			room++
		}
		if q.nonce != 0 && p.open(q.nonce) {
			room--
		}
	}
	return room
}

// question returns the question about a nonce, and for 0 a place for one.
func (p *process) question(nonce uint8) *question {
	for i := range p.unanswered {
		if p.unanswered[i].nonce == nonce {
			return &p.unanswered[i]
		}
	}
	return nil
}

// adopt begins runs that the process of the letter owns now.
func (w *Scenario) adopt(s *state, l *letter, granted uint8) (bad string) {
	for ; granted != 0; granted &= granted - 1 {
		id := bits.TrailingZeros8(granted)
		r, x := &s.runs[id], &s.process[l.process-1].stays[id]
		*x = stay{phase: loading, fence: r.fence, mail: r.mail}
		if r.fence.epoch == 1 && r.mail == 0 { // nobody had it before: its journal is empty
			bad = w.run(s, int(l.process), id)
		}
		if bad != "" {
			return bad
		}
	}
	return ""
}

// load reads the journal and the mailbox. A body that is refused within a wait keeps what is not durable yet.
func (w *Scenario) load(s *state, p, id int) (bad string) {
	r, x := &s.runs[id], &s.process[p-1].stays[id]
	old, at := x.view, place(&x.view, w.body)
	x.box, x.mail = r.untaken(), r.counted(w.body)
	for i := range w.body {
		switch {
		case x.refused && x.held&(1<<i) != 0 && !r.rows[i].final():
			if w.body[i] == wait && old[i].outcome == done {
				x.drop(old[i].value)
			}
			continue
		case x.refused && i == at && w.rules.noReread:
			continue
		}
		x.held &^= 1 << i
		if x.view[i] = r.rows[i]; r.rows[i].outcome == late {
			x.view[i] = row{}
		}
	}
	x.refused = false
	return w.run(s, p, id)
}

// drop takes a signal out of the box.
func (x *stay) drop(signal uint8) {
	n := 0
	for _, s := range x.box {
		if s != signal && s != 0 {
			x.box[n] = s
			n++
		}
	}
	for ; n < mostSignals; n++ {
		x.box[n] = 0
	}
}

// run runs the body until it calls a step or writes.
func (w *Scenario) run(s *state, p, id int) (bad string) {
	x := &s.process[p-1].stays[id]
	for {
		at := place(&x.view, w.body)
		if at == len(w.body) {
			x.phase, x.entry = writing, end
			return ""
		}
		passed := x.view[at].outcome == open && !x.view[at].future
		switch w.body[at] {
		case step:
			if x.held != 0 && !w.rules.noFlush {
				x.phase, x.entry = writing, flush
				return ""
			}
			x.phase = calling
			return w.acts(s, id, x, at)
		case wait:
			if x.box[0] == 0 || w.rules.deadlineFirst && passed {
				if x.phase, x.entry = writing, parkWait; passed {
					x.entry = timeOut
				}
				return ""
			}
			x.view[at] = row{outcome: done, value: x.box[0]}
			x.drop(x.box[0])
		case sleep:
			if !passed && !(w.rules.wakesEarly && x.view[at].outcome == open) {
				x.phase, x.entry = writing, parkIdle
				return ""
			}
			x.view[at] = row{outcome: done}
		}
		x.held |= 1 << at
	}
}

// acts notes what the body has seen before a step acts.
func (w *Scenario) acts(s *state, id int, x *stay, at int) (bad string) {
	for i := range at {
		seen := &s.seen[id].acted[i]
		if seen.outcome != none && *seen != settled(x.view[i]) {
			return "a step acts on another outcome than it did before"
		}
		*seen = settled(x.view[i])
	}
	return ""
}

// finish ends the call of a step. It returns something else than any call before.
func (w *Scenario) finish(s *state, p, id int) (bad string) {
	r, x := &s.runs[id], &s.process[p-1].stays[id]
	at := place(&x.view, w.body)
	value := 3 - max(s.seen[id].value[at], 1)
	if r.rows[at].final() {
		value = 3 - r.rows[at].value
	}
	s.seen[id].value[at] = value
	x.view[at] = row{outcome: done, value: value}
	x.held |= 1 << at
	return w.run(s, p, id)
}

// told gives a verdict to the process that wrote.
func (w *Scenario) told(s *state, l *letter, v verdict) (bad string) {
	p, id := int(l.process), int(l.run)
	r, x := &s.runs[id], &s.process[p-1].stays[id]
	switch v {
	case written:
		return w.toldWritten(s, p, id)
	case errMail:
		known := x.view[place(&x.view, w.body)].outcome == open
		switch {
		case x.entry == timeOut:
			x.phase, x.refused = loading, true
		case known && x.held == 0:
			x.phase = loading
		default:
			x.entry = keep
		}
		return ""
	}
	if x.entry == end && r.status == completed && r.fence == x.fence {
		bad = "an end that is written is told as refused"
	}
	steps := uint8(0)
	for i, v := range w.body {
		if v == step {
			steps |= 1 << i
		}
	}
	if x.held &= steps; x.entry == record || x.held == 0 {
		*x = stay{}
	} else {
		x.entry = record
	}
	return bad
}

func (w *Scenario) toldWritten(s *state, p, id int) (bad string) {
	r, x, seen := &s.runs[id], &s.process[p-1].stays[id], &s.seen[id]
	at := place(&x.view, w.body)
	if x.entry == timeOut {
		x.view[at] = row{outcome: timedOut}
		x.held |= 1 << at
	}
	for i := range w.body {
		if x.entry == record || x.held&(1<<i) == 0 {
			continue
		}
		if r.rows[i] != settled(x.view[i]) {
			return "a write is answered, and its row is not there"
		}
		seen.acked[i] = r.rows[i]
	}
	x.held = 0
	switch x.entry {
	case flush, timeOut:
		return w.run(s, p, id)
	case keep:
		x.phase = loading
		return ""
	case end:
		if seen.ended = true; r.status != completed {
			bad = "an end is answered, and the run has not ended so"
		}
	}
	*x = stay{}
	return bad
}
