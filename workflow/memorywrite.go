package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
)

// Claim implements Store.
func (m *Memory) Claim(ctx context.Context, q ClaimRequest) (claimed []Claimed, next time.Duration, err error) {
	if err := cmp.Or(q.Validate(), ctxcause.Of(ctx)); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open()
	at := now()
	if q.Lease > 0 {
		m.note(&q, at)
	}
	limits := m.admissions(&q, at)
	runs := slices.SortedFunc(maps.Values(m.runs), func(a, b *memoryRun) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range runs {
		if r.Status != Running || !slices.Contains(q.Definitions, Definition{r.Workflow, r.Version}) {
			continue
		}
		if q.plain() && r.idle() && r.Due.After(at) {
			if wait := r.Due.Sub(at); next == 0 || wait < next {
				next = wait
			}
			continue
		}
		if len(claimed) == q.Limit || !m.claimable(r, &q, at) || m.crash(r, &q) {
			continue
		}
		if a := limits[r.Workflow]; a != nil && !a.Admit(r.Group, r.fence.Nonce != "") {
			continue
		}
		r.fence = lock.Fence{Epoch: r.fence.Epoch + 1, Nonce: q.Nonce}
		r.Owner, r.Hold, r.Error, r.Event, r.match, r.Due, r.since = q.Process, "", "", "", nil, time.Time{}, at
		c := Claimed{r.Run, r.fence, r.mail, at}
		c.Input, c.Group = slices.Clone(c.Input), ""
		claimed = append(claimed, c)
	}
	for name, a := range limits {
		if a.PerSecond > 0 {
			m.limits[name] = bucket{a.Tokens, at}
		}
		if wait := a.Next(a.Tokens); a.HeldBack && (next == 0 || wait < next) {
			next = wait
		}
	}
	if len(claimed) == q.Limit {
		next = 0
	}
	return claimed, next, nil
}

// admissions returns what the limits of a claim of runs that are due admit. The caller holds mu.
func (m *Memory) admissions(q *ClaimRequest, at time.Time) map[string]*Admission {
	if !q.plain() || len(q.Limits) == 0 {
		return nil
	}
	all := make(map[string]*Admission, len(q.Limits))
	for name, l := range q.Limits {
		b, ok := m.limits[name]
		if !ok {
			b.tokens = l.Most()
		}
		all[name] = &Admission{Limit: l, Tokens: l.Filled(b.tokens, at.Sub(b.at)), Groups: make(map[string]int)}
	}
	for _, r := range m.runs {
		if a := all[r.Workflow]; a != nil && r.Owner != "" {
			a.Owned++
			a.Groups[r.Group]++
		}
	}
	return all
}

// note notes the definitions that a living process has. The caller holds mu.
func (m *Memory) note(q *ClaimRequest, at time.Time) {
	if len(q.Definitions) == 0 {
		for _, processes := range m.noted { // it is not living any more, but has known them until now
			if _, ok := processes[q.Process]; ok {
				processes[q.Process] = at.Add(-LivingFor)
			}
		}
	}
	for _, d := range q.Definitions {
		if m.noted[d] == nil {
			m.noted[d] = make(map[string]time.Time)
		}
		m.noted[d][q.Process] = at
	}
}

// plain reports whether r is for runs that are due.
func (r *ClaimRequest) plain() bool { return r.From == "" && r.Again == "" && r.Lease == 0 }

// idle reports whether the run has no owner, and goes on by itself.
func (r *memoryRun) idle() bool {
	return r.Owner == "" && (r.Hold == "" || r.Hold == HoldUnknown) && !r.forever
}

func (m *Memory) claimable(r *memoryRun, q *ClaimRequest, at time.Time) bool {
	switch {
	case q.plain():
		return r.idle() && !r.Due.After(at)
	case q.From != "":
		return r.Owner == q.From
	case q.Again != "":
		return r.Owner == q.Process && r.fence.Nonce == q.Again
	}
	return r.Owner != "" && at.Sub(r.since) > q.Lease && at.Sub(m.beaten[r.Owner]) > q.Lease
}

// crash notes that an owner has lost the run. It holds the run if that has happened too often.
func (m *Memory) crash(r *memoryRun, q *ClaimRequest) (held bool) {
	if q.From == "" && q.Lease == 0 {
		return false
	}
	rows := 0
	for _, st := range r.steps {
		if st.Outcome != Retrying && st.Outcome != Late {
			rows++
		}
	}
	if r.crashes++; r.crashed != rows {
		r.crashes, r.crashed = 1, rows
	}
	if r.crashes < q.MostCrashes {
		return false
	}
	r.fence.Epoch++
	r.Owner, r.Hold, r.forever, r.Error = "", Crashed, true, CrashError(r.crashes)
	return true
}

// Write implements Store.
func (m *Memory) Write(ctx context.Context, entries []Entry) (verdicts []error, err error) {
	if err := cmp.Or(ValidateWrite(entries), ctxcause.Of(ctx)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	verdicts = make([]error, len(entries))
	for i := range entries {
		verdicts[i] = m.write(&entries[i])
	}
	return verdicts, nil
}

// write writes an entry. The caller holds mu.
func (m *Memory) write(e *Entry) error {
	r := m.runs[e.Run]
	if r == nil {
		return ErrNotFound
	}
	if e.Next == Record {
		for _, st := range e.Steps {
			if _, ok := r.steps[st.Name]; !ok {
				st.Outcome = Late
				r.put(st, now())
			}
		}
		return nil
	}
	if repeated, err := e.Verdict(r.Status, r.Owner, r.fence, r.mail); repeated || err != nil {
		return err
	}
	at := now()
	for _, st := range e.Steps {
		if r.put(st, at) && st.Signal != "" { // a row that stays takes no signal
			r.taken[st.Signal] = true
		}
	}
	switch e.Next {
	case Park:
		r.Due, r.forever = e.DueAfter(at)
		r.Owner, r.Event, r.match, r.since = "", e.Event, slices.Clone(e.Match), at
	case End:
		r.Status, r.Error, r.Completed, r.Due, r.Owner = e.Status, e.Error, at, time.Time{}, ""
		if r.Output = slices.Clone(e.Output); e.Status == Completed {
			r.Output = document(e.Output)
		}
	case Stop:
		r.Owner, r.Hold, r.Error, r.forever = "", e.Held, e.Error, true
	}
	return nil
}

// put adds a row to the journal. It returns false if the row that is there stays.
func (r *memoryRun) put(st Step, at time.Time) bool {
	old, ok := r.steps[st.Name]
	again := ok && (old.Outcome == Open || old.Outcome == Retrying)
	switch {
	case ok && !again && old.Outcome != Late, ok && st.Outcome == Late,
		again && st.Outcome == old.Outcome && st.Attempts <= old.Attempts: // it comes again
		return false
	}
	st.Started, st.Completed = at.Add(-st.Took).Truncate(time.Microsecond), at
	if st.For > 0 {
		st.Until = at.Add(st.For)
	}
	if again {
		st.Started = old.Started
		if st.Until.IsZero() {
			st.Until = old.Until
		}
	}
	st.Until = st.Until.UTC().Truncate(time.Microsecond)
	st.Took, st.For, st.Output = 0, 0, slices.Clone(st.Output)
	r.steps[st.Name] = st
	return true
}

// DueAfter returns when a run is due that the entry parks at a time. If it is never due, only a signal wakes it. It is
// for authors of a store.
func (e *Entry) DueAfter(at time.Time) (due time.Time, never bool) {
	if e.After > 0 {
		due = at.Add(e.After).Truncate(time.Microsecond)
	}
	if due.IsZero() || !e.Due.IsZero() && e.Due.Before(due) {
		due = e.Due.UTC().Truncate(time.Microsecond)
	}
	return due, due.IsZero()
}

// Send implements Front.
func (m *Memory) Send(ctx context.Context, messages []Message) ([]Receipt, error) {
	if err := cmp.Or(ValidateSend(messages), ctxcause.Of(ctx)); err != nil {
		return nil, err
	}
	var notes []Note
	defer func() { m.tell(notes...) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	receipts := make([]Receipt, len(messages))
	for i := range messages {
		msg := &messages[i]
		switch r := m.runs[msg.Run]; {
		case r == nil, msg.Action == Rewind && r.steps[msg.Event].Name == "":
			receipts[i] = Unknown
		case msg.Action == Rewind && (r.Status == Running || r.Status == Failed):
			receipts[i] = Applied
			notes = append(notes, m.rewind(r, msg.Event)...)
		case r.Status != Running:
			receipts[i] = Over
		case msg.Action == Signal:
			if receipts[i] = r.signal(msg); receipts[i] != Unwanted {
				notes = append(notes, Note{})
			}
		default:
			receipts[i] = Applied
			notes = append(notes, r.control(msg.Action))
			if msg.Action == Cancel {
				notes = append(notes, m.cancelChildren(msg.Run)...)
			}
		}
	}
	return receipts, nil
}

// before returns a copy of what has ended before a step, without the signals that have ended waits.
func (r *memoryRun) before(step string) map[string]Step {
	from, steps := r.steps[step], make(map[string]Step)
	for name, st := range r.steps {
		if st.Before(&from) && (st.Outcome == Done || st.Outcome == TimedOut || st.Outcome == Broken) {
			st.Signal = ""
			steps[name] = st
		}
	}
	return steps
}

// rewind takes the run back to before a step. The caller holds mu.
func (m *Memory) rewind(r *memoryRun, step string) (notes []Note) {
	from, known := r.steps[step], make(map[string]bool)
	for name, st := range r.steps {
		switch {
		case !st.Before(&from):
			delete(r.steps, name)
			delete(r.taken, st.Signal)
		case st.Kind == KindChild && st.Outcome == Open:
			known[string(st.Output)] = true
		}
	}
	r.Status, r.Hold, r.Error, r.Output, r.Completed, r.Due = Running, "", "", nil, time.Time{}, now()
	r.Owner, r.Event, r.match, r.fence.Epoch = "", "", nil, r.fence.Epoch+1
	r.crashes, r.crashed, r.forever = 0, -1, false
	for id, c := range m.children[r.ID] {
		if doc, _ := json.Marshal(id); known[string(doc)] {
			continue
		}
		if c.Status == Running {
			notes = append(notes, c.control(Cancel))
		}
		notes = append(notes, m.cancelChildren(id)...)
	}
	return append(notes, Note{Run: r.ID}, Note{})
}

// cancelChildren cancels the descendants of a run that are running. The caller holds mu.
func (m *Memory) cancelChildren(run string) (notes []Note) {
	for id, r := range m.children[run] {
		if r.Status == Running {
			notes = append(notes, r.control(Cancel))
		}
		notes = append(notes, m.cancelChildren(id)...)
	}
	return notes
}

// control cancels, pauses or resumes the run.
func (r *memoryRun) control(a Action) Note {
	at := now()
	switch a {
	case Resume:
		if r.Hold != "" {
			r.Hold, r.Error, r.Due, r.crashes, r.forever = "", "", at, 0, false
		}
		return Note{}
	case Cancel:
		r.Status, r.Hold, r.Completed, r.Due, r.forever = Cancelled, "", at, time.Time{}, false
	case Pause:
		r.Hold, r.forever = Paused, true
	}
	r.Owner, r.Error, r.Event, r.match, r.fence.Epoch = "", "", "", nil, r.fence.Epoch+1
	return Note{Run: r.ID}
}

// signal gives a signal to the run.
func (r *memoryRun) signal(msg *Message) Receipt {
	if slices.ContainsFunc(r.signals, func(s Step) bool { return s.Signal == msg.ID }) {
		return Kept
	}
	payload := document(msg.Payload)
	waits := r.waits()
	hit := waits && r.Event == msg.Event && Contains(payload, r.match)
	if msg.Wanted && !hit {
		return Unwanted
	}
	at := now()
	r.mail++
	r.signals = append(r.signals, Step{
		Name: msg.Event, Kind: KindSignal, Outcome: Open, Output: payload, Signal: msg.ID, Started: at, Completed: at,
	})
	if hit || waits && r.Event == AnyEvent {
		r.Event, r.match, r.Due, r.forever = "", nil, earlier(r.Due, at), false
	}
	if hit {
		return Consumed
	}
	return Kept
}

// earlier returns the earlier of two times. The zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Verdict says why the run of an entry refuses the entry, or nil. repeated says that the entry has been written before:
// the run is as the entry leaves it. It is for authors of a store. The run is as its row says, which is locked.
func (e *Entry) Verdict(s Status, owner string, f lock.Fence, mail int64) (repeated bool, err error) {
	switch {
	case f == e.Fence && owner == "" && e.Next != Stay:
		return true, nil
	case s != Running:
		return false, ErrOver
	case f != e.Fence || owner == "":
		return false, lock.ErrFenced
	case e.Mail >= 0 && mail != e.Mail:
		return false, ErrMail
	}
	return false, nil
}
