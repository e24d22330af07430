package workflowmodel

// check says what a state has wrong.
func (w *Scenario) check(s *state) (bad string) {
	if w.limit > 0 && w.owned(s) > w.limit {
		return "more runs have an owner than the limit says"
	}
	for i := range w.runs {
		for _, f := range []func(*state, int) string{w.checkOwner, w.checkRows, w.checkSignals} {
			if bad := f(s, i); bad != "" {
				return bad
			}
		}
	}
	return w.checkFamily(s)
}

// checkOwner checks that one stay at most may write, and what was told of the run.
func (w *Scenario) checkOwner(s *state, i int) string {
	r, seen := &s.runs[i], &s.seen[i]
	owners := 0
	for p := range s.process {
		x := &s.process[p].stays[i]
		if x.phase == away || r.owner == nobody || x.fence != r.fence {
			continue
		}
		if owners++; int(r.owner) != p+1 {
			return "a process has the fence of another owner"
		}
	}
	switch {
	case owners > 1:
		return "two processes have the fence of the run"
	case seen.start == 2 && r.status == absent:
		return "a start was answered, and the run is gone"
	case seen.ended && r.status != completed:
		return "an end was answered, and the run goes on"
	case seen.stopped && r.status == running:
		return "a cancel was answered, and the run goes on"
	}
	return ""
}

// checkRows checks that what was answered is there.
func (w *Scenario) checkRows(s *state, i int) string {
	for v := range w.body {
		if acked := s.seen[i].acked[v]; acked.outcome != none &&
			(s.runs[i].rows[v] != acked || s.durable[i].rows[v] != acked) {
			return "a write was answered, and its row has changed or is gone"
		}
	}
	return ""
}

// checkSignals checks that each signal lies in the mailbox or was taken once, and that its receipt is true.
func (w *Scenario) checkSignals(s *state, i int) string {
	r, seen := &s.runs[i], &s.seen[i]
	if r.status == running && r.waits && r.owner == nobody && !r.paused && r.untaken() != [mostSignals]uint8{} {
		return "a run waits beside a signal"
	}
	for n := range uint8(w.signals) {
		takes, came := 0, false
		for v, verb := range w.body {
			if verb == wait && r.rows[v] == (row{outcome: done, value: n + 1}) {
				takes++
			}
		}
		for b := range r.box {
			came = came || s.runs[i].box[b] == n+1 && s.durable[i].box[b] == n+1
		}
		taken := r.taken&(1<<(n+1)) != 0
		switch told := seen.sent[n]; {
		case takes > 1:
			return "two waits take one signal"
		case taken != (takes == 1):
			return "a signal is neither in the mailbox nor taken"
		case (told == consumed || told == kept) && !came:
			return "a signal was answered, and is gone"
		}
		if at := seen.consumed[n]; at != 0 && r.rows[at-1].final() && r.rows[at-1].value != n+1 {
			return "a signal is consumed by a wait that ends otherwise"
		}
	}
	return ""
}

// rests reports whether the runs need nothing more: each is over, or held, or does not exist.
func (w *Scenario) rests(s *state) bool {
	for i := range w.runs {
		if r := &s.runs[i]; r.status == running && !r.paused {
			return false
		}
	}
	return true
}
