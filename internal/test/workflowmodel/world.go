package workflowmodel

// A label says which step was made.
type label struct {
	move    move
	process uint8
	run     uint8
	detail  uint8
	how     uint8 // asked, answerLost or delayed
}

// What becomes of a request.
const (
	asked uint8 = iota
	answerLost
	delayed
)

// A next is a state that may follow.
type next struct {
	label label
	state state
	bad   string

	// progress says that the step needs no fault and no client.
	progress bool

	// sent is the request that the store has got, if there was one, and got what it says.
	sent letter
	got  answer
}

// A walk collects what may follow a state.
type walk struct {
	*Scenario
	from *state
	to   []next
}

func (w *Scenario) next(s *state, to []next) []next {
	k := &walk{w, s, to[:0]}
	fresh := s.nonce()
	for p := range uint8(processes) {
		k.process(p+1, fresh)
	}
	for id := range w.runs {
		k.client(uint8(id), fresh)
	}
	if w.family {
		k.family()
	}
	k.world()
	return k.to
}

func (k *walk) add(l label, progress bool, change func(s *state) (bad string)) {
	k.to = append(k.to, next{label: l, state: *k.from, progress: progress})
	n := &k.to[len(k.to)-1]
	n.bad = change(&n.state)
}

// note notes what the store has got and said in the step that was added last.
func (k *walk) note(l letter, a answer) { k.to[len(k.to)-1].sent, k.to[len(k.to)-1].got = l, a }

// request sends a request: it is answered, its answer is lost, or it is delayed.
func (k *walk) request(l letter, detail uint8, progress bool) {
	name := label{move: l.kind, process: l.process, run: l.run, detail: detail}
	k.add(name, progress, func(s *state) string {
		a, bad := k.execute(s, &l)
		k.note(l, a)
		if bad == "" {
			bad = k.answered(s, &l, a)
		}
		return bad
	})
	if l.kind < sendSignal {
		p := &k.from.process[l.process-1]
		asked := l.kind == claimAgain && p.question(l.again).asked != 0
		if !asked && p.room() < 1 {
			return
		}
	}
	if k.from.spent.lost < k.lost {
		name.how = answerLost
		k.add(name, false, func(s *state) string {
			s.spent.lost++
			a, bad := k.execute(s, &l)
			k.note(l, a)
			k.unanswered(s, &l)
			return bad
		})
	}
	if k.from.spent.delay < k.delay && k.from.letter.kind == 0 {
		name.how = delayed
		k.add(name, false, func(s *state) string {
			s.spent.delay++
			s.letter = l
			k.unanswered(s, &l)
			return ""
		})
	}
}

// process adds what a process may do.
func (k *walk) process(p, fresh uint8) {
	s, me := k.from, &k.from.process[p-1]
	k.claims(letter{kind: claimDue, process: p, nonce: fresh}, true)
	k.claims(letter{kind: takeOver, process: p, nonce: fresh, again: dead}, true)
	if s.spent.suspect < k.suspect {
		k.claims(letter{kind: takeOver, process: p, nonce: fresh, again: processes + 1 - p}, false)
	}
	for _, q := range me.unanswered {
		l := letter{kind: claimAgain, process: p, nonce: fresh, again: q.nonce}
		switch {
		case q.nonce == 0:
			continue
		case k.rules.againSame:
			l.nonce = q.nonce
		case q.asked != 0:
			l.nonce = q.asked
		}
		k.claims(l, true)
	}
	for id := range k.runs {
		k.stay(p, uint8(id))
	}
	if s.spent.crash < k.crash && *me != (process{}) {
		k.add(label{move: crash, process: p}, false, func(s *state) string {
			s.spent.crash++
			s.kill(p)
			return ""
		})
	}
}

// claims adds a claim that gets something, and a question that has no answer yet.
func (k *walk) claims(l letter, progress bool) {
	any, owned := false, k.counted(k.from, &l)
	if k.rules.countsFirst && l.kind == claimDue {
		k.count(l.process)
		if owned < 0 {
			return
		}
	}
	for id := range k.runs {
		if !k.claimable(&k.from.runs[id], &l) || k.full(&l, owned) {
			continue
		}
		again := l.kind == claimAgain && k.from.stays(id, l.process)
		if k.from.process[l.process-1].stays[id].phase != away && !again {
			return
		}
		any = true
	}
	if any || l.kind == claimAgain && (k.rules.againOnce || k.from.process[l.process-1].open(l.again)) {
		if l.kind == takeOver && !progress {
			before := len(k.to)
			k.request(l, l.again, false)
			for i := before; i < len(k.to); i++ {
				k.to[i].state.spent.suspect++
			}
			return
		}
		k.request(l, l.again, progress)
	}
}

// count lets a process count the owners.
func (k *walk) count(p uint8) {
	owned := uint8(k.owned(k.from)) + 1 //nolint:gosec // there are few
	if k.from.process[p-1].counted != owned {
		k.add(label{move: count, process: p}, true, func(s *state) string {
			s.process[p-1].counted = owned
			return ""
		})
	}
}

// stay adds what a process may do with a run that it has.
func (k *walk) stay(p, id uint8) {
	x := &k.from.process[p-1].stays[id]
	name := label{process: p, run: id}
	switch x.phase {
	case loading:
		name.move = read
		k.add(name, true, func(s *state) string { return k.load(s, int(p), int(id)) })
	case calling:
		name.move = finish
		k.add(name, true, func(s *state) string { return k.finish(s, int(p), int(id)) })
		if k.from.spent.hand < k.handedBack {
			name.move = handBack
			k.add(name, false, func(s *state) string {
				s.spent.hand++
				y := &s.process[p-1].stays[id]
				y.phase, y.entry = writing, giveBack
				return ""
			})
		}
	case writing:
		k.request(letter{kind: writeEntry, process: p, run: id, stay: *x}, uint8(x.entry), true)
	}
}

// client adds what clients may ask for.
func (k *walk) client(id, fresh uint8) {
	s := k.from
	seen := &s.seen[id]
	if k.front && seen.start != 2 {
		k.request(letter{kind: startRun, process: 1, run: id, nonce: fresh}, 0, false)
		return
	}
	for i := range uint8(k.signals) {
		if seen.sent[i] <= unanswered {
			k.request(letter{kind: sendSignal, run: id, signal: i + 1}, i+1, false)
		}
	}
	if s.runs[id].status != running {
		return
	}
	if s.spent.cancel < k.cancels {
		k.add(label{move: cancel, run: id}, false, func(s *state) string {
			s.spent.cancel++
			k.control(s, int(id), cancel)
			s.seen[id].stopped = true
			return ""
		})
	}
	if s.spent.pause < k.pauses && !s.runs[id].paused {
		k.add(label{move: pause, run: id}, false, func(s *state) string {
			s.spent.pause++
			k.control(s, int(id), pause)
			return ""
		})
	}
	if s.spent.resume < k.resumes && s.runs[id].paused {
		k.add(label{move: resume, run: id}, false, func(s *state) string {
			s.spent.resume++
			k.control(s, int(id), resume)
			return ""
		})
	}
}

// world adds what the network, the server and the clock may do.
func (k *walk) world() {
	s := k.from
	if s.letter.kind != 0 {
		k.add(label{move: arrive, detail: uint8(s.letter.kind)}, true, func(s *state) string {
			l := s.letter
			s.letter = letter{}
			a, bad := k.execute(s, &l)
			k.note(l, a)
			return bad
		})
		k.add(label{move: lose}, true, func(s *state) string {
			s.letter = letter{}
			return ""
		})
	}
	if s.spent.outage < k.outage && s.runs != s.durable {
		k.add(label{move: outage}, false, func(s *state) string {
			s.spent.outage++
			s.runs = s.durable
			return ""
		})
		k.add(label{move: flushLog}, true, func(s *state) string {
			s.sync()
			return ""
		})
	}
	if s.ticks() {
		k.add(label{move: tick}, true, func(s *state) string {
			s.tick()
			return ""
		})
	}
}

// kill ends a process. What it owns is owned by one that is dead.
func (s *state) kill(p uint8) {
	s.process[p-1] = process{}
	for i := range s.runs {
		for _, r := range []*run{&s.runs[i], &s.durable[i]} {
			if r.owner == p {
				r.owner = dead
			}
		}
	}
	if l := &s.letter; l.process == p {
		l.process = dead
	}
}

// journals calls f with all rows that have deadlines.
func (s *state) journals(f func(rows *[mostVerbs]row)) {
	for i := range s.runs {
		f(&s.runs[i].rows)
		f(&s.durable[i].rows)
		for p := range s.process {
			f(&s.process[p].stays[i].view)
		}
	}
	f(&s.letter.stay.view)
}

// ticks reports whether there is a deadline in the future.
func (s *state) ticks() (any bool) {
	for i := range s.runs {
		any = any || s.runs[i].due == later || s.durable[i].due == later
	}
	s.journals(func(rows *[mostVerbs]row) {
		for _, r := range rows {
			any = any || r.future
		}
	})
	return any
}

func (s *state) tick() {
	for i := range s.runs {
		for _, r := range []*run{&s.runs[i], &s.durable[i]} {
			if r.due == later {
				r.due = now
			}
		}
	}
	s.journals(func(rows *[mostVerbs]row) {
		for i := range rows {
			rows[i].future = false
		}
	})
}
