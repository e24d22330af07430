package workflowmodel

// nonce returns a nonce that is not in use.
func (s *state) nonce() (fresh uint8) {
	s.nonces(func(n *uint8) { fresh = max(fresh, *n) })
	return fresh + 1
}

// nonces calls f with all nonces.
func (s *state) nonces(f func(*uint8)) {
	for i := range s.runs {
		f(&s.runs[i].fence.nonce)
		f(&s.durable[i].fence.nonce)
	}
	for p := range s.process {
		for i := range s.process[p].stays {
			f(&s.process[p].stays[i].fence.nonce)
		}
		for i := range s.process[p].unanswered {
			f(&s.process[p].unanswered[i].nonce)
			f(&s.process[p].unanswered[i].asked)
		}
	}
	f(&s.letter.nonce)
	f(&s.letter.again)
	f(&s.letter.stay.fence.nonce)
}

// canon makes states equal that differ in nothing that counts.
func (w *Scenario) canon(s *state) {
	if s.spent.outage >= w.outage {
		s.sync()
	}
	for i := range w.runs {
		for v := range w.body {
			if s.durable[i].rows[v].final() {
				s.seen[i].value[v] = 0
			}
		}
	}
	if !w.rules.noNonce {
		w.forgetFences(s)
	}
	w.forgetNonces(s)
	var to [32]uint8
	last := uint8(0)
	again := s.letter.again
	s.nonces(func(n *uint8) {
		if n == &s.letter.again && s.letter.kind != claimAgain {
			return
		}
		if *n != 0 && to[*n] == 0 {
			last++
			to[*n] = last
		}
		*n = to[*n]
	})
	if s.letter.kind == takeOver {
		s.letter.again = again
	}
}

// staleFence is a fence that no run will ever have.
var staleFence = fence{epoch: 99}

// forgetFences replaces fences that the store will never have again, and makes epochs small.
func (w *Scenario) forgetFences(s *state) {
	for i := range w.runs {
		now, durable := s.runs[i].fence, s.durable[i].fence
		by := max(durable.epoch, 2) - 2 // 0 and 1 count: nobody had the run before
		fix := func(f *fence) {
			if *f == (fence{}) {
				return
			}
			if *f != now && *f != durable {
				*f = staleFence
			} else {
				f.epoch -= by
			}
		}
		for p := range s.process {
			fix(&s.process[p].stays[i].fence)
		}
		if s.letter.kind == writeEntry && int(s.letter.run) == i {
			fix(&s.letter.stay.fence)
		}
		s.runs[i].fence.epoch -= by
		s.durable[i].fence.epoch -= by
	}
}

// forgetNonces forgets nonces under which a process will own nothing more.
func (w *Scenario) forgetNonces(s *state) {
	for p := range s.process {
		var kept [mostUnanswered]question
		n := 0
		for _, q := range s.process[p].unanswered {
			if w.owns(s, uint8(p+1), q.nonce) || w.owns(s, uint8(p+1), q.asked) {
				kept[n] = q
				n++
			}
		}
		s.process[p].unanswered = kept
	}
}

// owns reports whether a process owns a run under a nonce, or may do so later.
func (w *Scenario) owns(s *state, p, nonce uint8) bool {
	if nonce == 0 {
		return false
	}
	owns := s.letter.kind != 0 && s.letter.nonce == nonce && s.letter.process == p
	for i := range w.runs {
		for _, r := range []*run{&s.runs[i], &s.durable[i]} {
			owns = owns || r.owner == p && r.fence.nonce == nonce
		}
	}
	return owns
}
