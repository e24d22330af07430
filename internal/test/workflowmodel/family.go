package workflowmodel

// In a scenario of a family, run 1 is a child of run 0. Its start and the cancel of run 0 are transactions, each of two
// steps: one sees the state at its begin, and commits later. All else happens in between.

// A family says how far they are.
type family struct {
	start, cancel uint8 // not begun, begun, over
	seen          bool  // the child was there when the cancel began
}

const (
	begun uint8 = iota + 1
	ended
)

// family adds what a client may do with a child and its parent.
func (k *walk) family() {
	s, parent := k.from, &k.from.runs[0]
	locked := s.family.start == begun && !k.rules.parentIsFree
	if s.family.start == 0 && parent.status == running {
		k.add(label{move: beginChild, run: 1}, false, func(s *state) string {
			s.family.start = begun
			return ""
		})
	}
	if s.family.start == begun {
		k.add(label{move: startRun, run: 1}, true, func(s *state) string {
			s.family.start = ended
			s.runs[1] = run{status: running, due: now}
			s.seen[1].start = 2
			s.sync()
			return ""
		})
	}
	if s.family.cancel == 0 {
		k.add(label{move: beginCancel}, false, func(s *state) string {
			s.family.cancel, s.family.seen = begun, s.runs[1].status != absent
			return ""
		})
	}
	if s.family.cancel == begun && !locked {
		k.add(label{move: cancel}, true, k.cancelFamily)
	}
}

// cancelFamily commits the cancel of run 0. Its second statement sees what has committed since the first one began.
func (w *Scenario) cancelFamily(s *state) string {
	sees := s.runs[1].status != absent && (s.family.seen || !w.rules.oneStatement)
	s.family.cancel, s.family.seen = ended, false
	if s.runs[0].status != running {
		return ""
	}
	w.control(s, 0, cancel)
	s.seen[0].stopped = true
	if sees {
		w.control(s, 1, cancel)
	}
	return ""
}

// checkFamily checks that no child goes on whose parent was cancelled.
func (w *Scenario) checkFamily(s *state) string {
	if w.family && s.runs[0].status == cancelled && s.runs[1].status == running {
		return "a child goes on, and its parent is cancelled"
	}
	return ""
}
