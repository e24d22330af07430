package ledger

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
)

// Memory is a Ledger that lives and dies with the process. The zero value is ready.
type Memory struct {
	// DoubtFor is how long the window of a Raise is open. 0 means DefaultDoubt, and less than 0 that there is none.
	DoubtFor time.Duration

	// Age is how long Sweep keeps what Prune may forget. 0 or less means for ever.
	Age time.Duration

	mu      sync.Mutex // protects following fields
	runs    map[string]*run
	effects map[string]*Effect
	order   []*Effect // the first issued first
	raises  []raise
}

var (
	_ Ledger = (*Memory)(nil)

	_ lock.Raiser = (*Memory)(nil)
)

// A raise is one call of Raise. Fences up to epoch, the time of the call in microseconds, are refused.
type raise struct {
	epoch  int64
	until  time.Time
	why    string
	failed map[string]bool // the effects that had Failed, and were not issued since
}

// A run is the highest fence that the ledger has seen of a run, and since when.
type run struct {
	fence lock.Fence
	since time.Time
}

// Schema returns "": Memory has no tables.
func (m *Memory) Schema() string { return "" }

// Adopt implements [Ledger].
func (m *Memory) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	if err := checked(ctx, ValidateAdopt(runID, f)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.adopt(runID, f)
}

// adopt is Adopt. The caller holds mu.
func (m *Memory) adopt(runID string, f lock.Fence) error {
	known := m.runs[runID]
	switch {
	case len(m.raises) > 0 && f.Epoch <= m.raises[len(m.raises)-1].epoch:
		return lock.ErrFenced
	case known == nil:
		if m.runs == nil {
			m.runs = make(map[string]*run)
		}
		m.runs[runID] = &run{f, now()}
	case known.fence == f:
		return nil
	case known.fence.Epoch >= f.Epoch:
		return lock.ErrFenced
	default:
		*known = run{f, now()}
	}
	for _, e := range m.order {
		if e.RunID == runID && e.State == Issued && e.Fence != f {
			e.State, e.FinishedAt = Unknown, now()
		}
	}
	return nil
}

// Issue implements [Ledger].
func (m *Memory) Issue(ctx context.Context, e Effect, again bool) (now Effect, issued bool, err error) {
	if err := checked(ctx, e.ValidateIssue()); err != nil {
		return Effect{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.adopt(e.RunID, e.Fence); err != nil {
		return Effect{}, false, err
	}
	known := m.effects[e.ID]
	switch {
	case known == nil:
		known = m.add(e)
		known.doubt(m.doubts(e, true))
		return known.clone(), known.State == Issued, nil
	case known.Class != Pure && !SameArgs(known.ArgsSum, e.ArgsSum):
		return known.clone(), false, ErrChanged
	}
	follows := 0
	if again {
		follows = e.Attempts
	}
	ours := known.State == Issued && known.RunID == e.RunID // a lower fence's would be Unknown by now
	switch {
	case ours && known.Attempts == follows+1:
		return known.clone(), true, nil
	case again && known.Attempts == follows && (known.State == Failed || known.State == Unknown || ours):
		why := ""
		if known.State == Failed && e.State != Failed {
			why = m.doubts(e, false)
		}
		for _, r := range m.raises {
			delete(r.failed, e.ID)
		}
		known.issue(e)
		known.doubt(why)
		return known.clone(), known.State == Issued, nil
	}
	return known.clone(), false, nil
}

// doubts returns why an effect that is new, or that has Failed, is not issued; "" if it is.
func (m *Memory) doubts(e Effect, isNew bool) (why string) {
	after, ok := e.DoubtedAfter()
	for _, r := range m.raises {
		if ok && after < r.epoch && (isNew || r.failed[e.ID]) && time.Now().Before(r.until) {
			why = r.why
		}
	}
	return why
}

// Raise implements lock.Raiser. It returns how many effects were Issued.
func (m *Memory) Raise(ctx context.Context, lost time.Time) (ended int, err error) {
	if err := checked(ctx, nil); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := now()
	open, why := WindowOf(lost, m.DoubtFor)
	failed := make(map[string]bool)
	m.raises = append(m.raises, raise{at.UnixMicro(), at.Add(open), why, failed})
	for _, r := range m.runs {
		if r.fence.Epoch > at.UnixMicro() { // of a clock that is ahead
			r.fence.Nonce = ""
		}
	}
	for _, e := range m.order {
		switch e.State {
		case Issued:
			e.State, e.FinishedAt = Unknown, at
			ended++
		case Failed:
			failed[e.ID] = true
		}
	}
	return ended, nil
}

// add keeps an effect that is new.
func (m *Memory) add(e Effect) *Effect {
	if m.effects == nil {
		m.effects = make(map[string]*Effect)
	}
	added := &Effect{ID: e.ID, Orchestrator: e.Orchestrator, Name: e.Name, Each: e.Each, Key: e.Key}
	added.issue(e)
	m.effects[e.ID] = added
	m.order = append(m.order, added)
	return added
}

// issue makes the next attempt at an effect, by the owner of e.
func (e *Effect) issue(by Effect) {
	e.Session, e.RunID, e.Iteration, e.Intent, e.Fence = by.Session, by.RunID, by.Iteration, by.Intent, by.Fence
	e.Class, e.Args, e.ArgsSum = by.Class, slices.Clone(by.Args), by.ArgsSum
	e.Unsure = e.State.Open() && by.State != Failed
	e.State, e.Error, e.IssuedAt, e.FinishedAt = Issued, "", now(), time.Time{}
	e.AnsweredBy, e.AnsweredAt = "", time.Time{}
	e.Attempts++
}

// doubt makes the attempt that was just issued Unknown, if why is not "".
func (e *Effect) doubt(why string) {
	if why != "" {
		e.State, e.Error, e.FinishedAt = Unknown, why, e.IssuedAt
	}
}

// Finish implements [Ledger].
func (m *Memory) Finish(ctx context.Context, id string, attempt int, o Outcome) (now Effect, err error) {
	if err := checked(ctx, ValidateFinish(id, attempt, o)); err != nil {
		return Effect{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.effects[id]
	if e == nil {
		return Effect{}, ErrNotFound
	}
	if err := e.finish(attempt, o); err != nil {
		return e.clone(), err
	}
	return e.clone(), nil
}

func (e *Effect) finish(attempt int, o Outcome) error {
	state, err := e.Takes(attempt, o)
	if state == "" {
		return err
	}
	e.State, e.Result, e.Error, e.FinishedAt = state, slices.Clone(o.Result), o.Error, now()
	e.Redacted, e.Unsure = o.Redacted, e.Unsure && state.Open()
	if o.By != "" {
		e.AnsweredBy, e.AnsweredAt = o.By, e.FinishedAt
	}
	return nil
}

// Record implements [Ledger].
func (m *Memory) Record(ctx context.Context, e Effect) (now Effect, err error) {
	if err := checked(ctx, e.ValidateRecord()); err != nil {
		return Effect{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.adopt(e.RunID, e.Fence); err != nil {
		return Effect{}, err
	}
	known := m.effects[e.ID]
	if known == nil {
		known = m.add(e)
	}
	o := Outcome{State: Completed, Result: e.Result, Redacted: e.Redacted}
	if err := known.finish(known.Attempts, o); err != nil {
		return Effect{}, err
	}
	return known.clone(), nil
}

// Effects implements [Ledger].
func (m *Memory) Effects(ctx context.Context, q Query) iter.Seq2[Effect, error] {
	return func(yield func(Effect, error) bool) {
		if err := checked(ctx, q.Validate()); err != nil {
			yield(Effect{}, err)
			return
		}
		for _, e := range m.selected(q) {
			if err := ctxcause.Of(ctx); err != nil {
				yield(Effect{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *Memory) selected(q Query) (all []Effect) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.order {
		switch {
		case !q.selects(e):
		case q.Brief:
			brief := *e
			brief.Args, brief.Result, brief.Error = nil, nil, ""
			all = append(all, brief.clone())
		default:
			all = append(all, e.clone())
		}
	}
	return all
}

func (q Query) selects(e *Effect) bool {
	for _, want := range [][2]string{
		{q.Orchestrator, e.Orchestrator}, {q.Session, e.Session}, {q.RunID, e.RunID}, {q.ID, e.ID},
	} {
		if want[0] != "" && want[0] != want[1] {
			return false
		}
	}
	if q.AnsweredWithin > 0 && (e.AnsweredAt.IsZero() || e.AnsweredAt.Before(now().Add(-q.AnsweredWithin))) {
		return false
	}
	return !q.Open || e.State.Open()
}

// Sweep implements store.Sweeper. It heeds no limit.
func (m *Memory) Sweep(ctx context.Context, _ int) (retired int, err error) {
	if m.Age <= 0 {
		return 0, nil
	}
	return m.Prune(ctx, time.Now().Add(-m.Age))
}

// Prune implements [Ledger].
func (m *Memory) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	if err := checked(ctx, nil); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make(map[string]bool) // runs with effects
	m.order = slices.DeleteFunc(m.order, func(e *Effect) bool {
		if e.Key == "" && !e.State.Open() && e.FinishedAt.Before(before) {
			delete(m.effects, e.ID)
			forgotten++
			return true
		}
		kept[e.RunID] = true
		return false
	})
	for id, r := range m.runs {
		if !kept[id] && r.since.Before(before) {
			delete(m.runs, id)
		}
	}
	return forgotten, nil
}

// clone returns a copy that shares nothing with e, as it is at this moment.
func (e *Effect) clone() Effect {
	c := *e
	c.Args, c.Result = slices.Clone(e.Args), slices.Clone(e.Result)
	c.Age = max(0, now().Sub(e.IssuedAt))
	return c
}

// checked returns err, the verdict on the arguments, or else the cause of a ctx that has ended.
func checked(ctx context.Context, err error) error {
	if err == nil {
		err = ctxcause.Of(ctx)
	}
	return err
}

// now is a time as every backend keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
