package workflowmodel

import "fmt"

// A verdict is what the store says of an entry.
type verdict uint8

const (
	written verdict = iota
	errMail
	errFenced
	errOver
)

// sync makes all that the store has durable. A log that is flushed up to a commit has all commits before it.
func (s *state) sync() { s.durable = s.runs }

// same reports whether the store takes the fence for that of the run.
func (w *Scenario) same(f fence, r *run, e entry) bool {
	switch {
	case w.rules.noFence, w.rules.noFenceOfSteps && e.stays():
		return true
	case w.rules.noNonce:
		return f.epoch == r.fence.epoch
	}
	return f == r.fence
}

// start adds a run. A process that is not 0 owns it.
func (w *Scenario) start(s *state, id int, owner, nonce uint8) (added bool) {
	r := &s.runs[id]
	if r.status != absent {
		return false
	}
	*r = run{status: running, due: now}
	if owner != nobody {
		r.owner, r.due, r.fence = owner, never, fence{1, nonce}
	}
	if !w.rules.startIsNotDurable {
		s.sync()
	}
	return true
}

// claimable reports whether a claim takes the run.
func (w *Scenario) claimable(r *run, l *letter) bool {
	switch {
	case r.status != running:
		return false
	case l.kind == claimAgain:
		return r.owner == l.process && r.fence.nonce == l.again
	case l.kind == takeOver:
		return r.owner == l.again
	}
	return r.owner == nobody && r.due == now && (!r.paused || w.rules.holdIsIgnored)
}

// claim makes the process of the letter the owner of runs. It does not wait for the disk.
func (w *Scenario) claim(s *state, l *letter) (granted uint8, bad string) {
	owned := w.counted(s, l)
	for id := range w.runs {
		r := &s.runs[id]
		if !w.claimable(r, l) || w.full(l, owned) {
			continue
		}
		if r.paused {
			bad = "a paused run is claimed"
		}
		if l.kind == claimAgain && s.stays(id, l.process) {
			bad = "a question takes a run from its stay"
		}
		if l.kind != takeOver || !w.rules.takeoverKeeps {
			r.fence.nonce = l.nonce
			if !w.rules.claimKeepsEpoch {
				r.fence.epoch++
			}
		}
		r.owner, r.due, r.waits = l.process, never, false
		granted |= 1 << id
		owned++
	}
	if w.rules.countsFirst && l.kind == claimDue && l.process != dead {
		s.process[l.process-1].counted = 0
	}
	return granted, bad
}

// owned returns how many runs have an owner.
func (w *Scenario) owned(s *state) (n int) {
	for i := range w.runs {
		if s.runs[i].owner != nobody {
			n++
		}
	}
	return n
}

// counted returns how many owners a claim goes by.
func (w *Scenario) counted(s *state, l *letter) int {
	if w.rules.countsFirst && l.kind == claimDue && l.process != dead {
		return int(s.process[l.process-1].counted) - 1
	}
	return w.owned(s)
}

// full reports whether the limit holds back what a claim may take. What another owner has, has its place.
func (w *Scenario) full(l *letter, owned int) bool {
	heeds := l.kind == claimDue || l.kind == takeOver && w.rules.heldBack
	return w.limit > 0 && heeds && owned >= w.limit
}

// stays reports whether a process has a run, and may write it.
func (s *state) stays(id int, p uint8) bool {
	if p == dead {
		return false
	}
	x := &s.process[p-1].stays[id]
	return x.phase != away && x.fence == s.runs[id].fence
}

// verdict says what the store says of an entry.
func (w *Scenario) verdict(r *run, x *stay) (v verdict, repeated bool) {
	same := w.same(x.fence, r, x.entry)
	compares := x.entry.compares() && !(x.entry == parkWait && w.rules.noMailAtPark) &&
		!(x.entry == timeOut && w.rules.noMailAtTimeout)
	switch {
	case same && r.owner == nobody && !x.entry.stays() && !w.rules.repeatIsRefused:
		return written, true
	case r.status != running:
		return errOver, false
	case !same || r.owner == nobody:
		return errFenced, false
	case compares && r.mail != x.mail:
		return errMail, false
	}
	return written, false
}

// write writes an entry of a process, and checks what it changes. by may be dead.
func (w *Scenario) write(s *state, id int, x *stay, by uint8) (v verdict, bad string) {
	r := &s.runs[id]
	old := *r
	switch {
	case x.entry == record && w.rules.lateCounts:
		for i := range w.body {
			if x.held&(1<<i) != 0 {
				w.put(r, i, x.view[i])
			}
		}
	case x.entry == record:
		for i := range w.body {
			if x.held&(1<<i) != 0 && r.rows[i].outcome == none {
				r.rows[i] = row{outcome: late}
			}
		}
	default:
		v, repeated := w.verdict(r, x)
		if v != written || repeated {
			if !w.rules.refusalIsNotFirm { // an owner drops the run when it is told: no crash may give it the run again
				s.sync()
			}
			return v, ""
		}
		w.accept(r, x)
	}
	if !w.rules.writeIsNotDurable {
		s.sync()
	}
	return written, w.judge(&old, r, x, by)
}

// accept does what an accepted entry says.
func (w *Scenario) accept(r *run, x *stay) {
	at := place(&x.view, w.body)
	for i := range w.body {
		if x.held&(1<<i) != 0 {
			w.put(r, i, x.view[i])
		}
	}
	known := at < len(w.body) && x.view[at].outcome == open
	due := later
	if known && !x.view[at].future {
		due = now
	}
	switch {
	case x.entry == timeOut:
		w.put(r, at, row{outcome: timedOut})
	case !known && (x.entry == keep || x.entry == parkWait || x.entry == parkIdle):
		w.put(r, at, row{outcome: open, future: true})
	}
	switch x.entry {
	case parkWait, parkIdle:
		r.waits = x.entry == parkWait
		if r.due = due; w.rules.parkForgets {
			r.due = never
		}
		r.owner = nobody
	case giveBack:
		r.owner, r.due = nobody, now
	case end:
		r.owner, r.status, r.due = nobody, completed, never
	}
}

// put adds a row to the journal.
func (w *Scenario) put(r *run, i int, to row) {
	signal := w.body[i] == wait && to.outcome == done
	from := r.rows[i]
	if from.final() {
		return
	}
	if from.outcome == open && to.outcome == open && !w.rules.deadlineMoves {
		to.future = from.future
	}
	if r.rows[i] = to; signal {
		r.taken |= 1 << to.value
	}
}

// judge says what an accepted entry has done wrong.
func (w *Scenario) judge(old, r *run, x *stay, by uint8) string {
	for i, v := range w.body {
		from, to := old.rows[i], r.rows[i]
		switch {
		case from == to, to.outcome == late && from.outcome == none:
			continue
		case from.final():
			return fmt.Sprintf("row %d was final, and changes", i)
		case old.status != running:
			return "a run that is over gets a row"
		case old.paused:
			return "a paused run gets a row"
		case x.fence != old.fence || by != old.owner:
			return "another than the owner writes a row"
		case from.outcome == open && to.outcome == open:
			return "a deadline moves"
		case v != step && (to.outcome == timedOut || v == sleep && to.final()) && (from.outcome != open || from.future):
			return "a sleep or a wait ends before its deadline"
		case to.outcome == timedOut && old.untaken() != [mostSignals]uint8{}:
			return "a wait times out beside a signal"
		}
	}
	if x.entry == record {
		return ""
	}
	if old.status != running || old.paused || x.fence != old.fence || by != old.owner {
		return "another than the owner of a run that goes on gives it back"
	}
	if r.status == completed {
		for i := range w.body {
			if r.rows[i] != settled(x.view[i]) {
				return fmt.Sprintf("the run ends, and row %d is not what its body saw", i)
			}
		}
	}
	return ""
}

// settled returns a final row without what does not count any more.
func settled(r row) row {
	r.future = false
	return r
}

// send gives a signal to a run.
func (w *Scenario) send(s *state, id int, signal uint8) receipt {
	r := &s.runs[id]
	if r.status != running {
		return over
	}
	n := 0
	for n < mostSignals && r.box[n] != 0 {
		if r.box[n] == signal && !(w.rules.signalTwice && r.taken&(1<<signal) != 0) {
			return kept
		}
		n++
	}
	if n == mostSignals { // only if the store forgets ids
		r.taken &^= 1 << signal
	} else {
		r.box[n] = signal
	}
	r.mail++
	hit := r.waits && r.owner == nobody && !r.paused
	if hit && !w.rules.signalSleeps {
		r.waits, r.due = false, now
		s.seen[id].consumed[signal-1] = uint8(place(&r.rows, w.body)) + 1
	}
	if !w.rules.sendIsNotDurable {
		s.sync()
	}
	if hit {
		return consumed
	}
	return kept
}

// control cancels, pauses or resumes a run.
func (w *Scenario) control(s *state, id int, m move) {
	r := &s.runs[id]
	switch {
	case r.status != running:
		return
	case m == resume:
		if r.paused {
			r.paused, r.due = false, now
		}
		s.sync()
		return
	case m == cancel:
		r.status, r.paused, r.due = cancelled, false, never
	case m == pause:
		if r.paused = true; !w.rules.holdIsIgnored {
			r.due = never
		}
	}
	if m == cancel && !w.rules.cancelKeepsEpoch || m == pause && !w.rules.pauseKeepsEpoch {
		r.fence.epoch++
	}
	r.owner, r.waits = nobody, false
	s.sync()
}
