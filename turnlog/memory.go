package turnlog

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Memory is a Log that lives and dies with the process. The zero value is ready.
type Memory struct {
	// Age is how long Sweep keeps what Prune may forget. 0 or less means for ever.
	Age time.Duration

	mu      sync.Mutex // protects following fields
	open    map[string]*turn
	settled map[string]*turn

	// names are the names of phases, each kept once.
	names map[string]string
}

var _ Lister = (*Memory)(nil)

// A turn is a run as a Memory keeps it.
type turn struct {
	run, orchestrator, session string
	number                     int
	entries                    []entry // sorted

	// startedAt and settledAt are the times of the last Started and Settled, in milliseconds; -1 if there is none.
	startedAt, settledAt int64
}

// An entry is an Entry of a turn.
type entry struct {
	at    int64 // milliseconds
	phase string
	state string
}

// Schema returns "": Memory has no tables.
func (m *Memory) Schema() string { return "" }

// Record implements [Log].
func (m *Memory) Record(ctx context.Context, e Entry) error {
	if err := checked(ctx, e.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, found := m.known(e); found {
		if !Same(known, e.state()) {
			return ErrChanged
		}
		return nil
	}
	m.add(e)
	return nil
}

// Carry records entries of a run together with what write writes, unless one of them is known: see
// snapshot.SaveEffects. Nobody sees an entry before write has returned true. It is for snapshot.Memory.
func (m *Memory) Carry(all []Entry, write func() (taken bool, err error)) (taken bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range all {
		if _, found := m.known(e); found {
			return false, nil
		}
	}
	if taken, err = write(); !taken || err != nil {
		return false, err
	}
	for _, e := range all {
		m.add(e)
	}
	return true, nil
}

// known returns the state of an entry that is recorded. The caller holds mu.
func (m *Memory) known(e Entry) (state json.RawMessage, found bool) {
	t := m.find(e.Run)
	if t == nil {
		return nil, false
	}
	i, found := t.place(e.At.UnixMilli(), e.Phase)
	if !found {
		return nil, false
	}
	return json.RawMessage(t.entries[i].state), true
}

// add records an entry that is not known. The caller holds mu.
func (m *Memory) add(e Entry) {
	t, at := m.find(e.Run), e.At.UnixMilli()
	if t == nil {
		t = &turn{
			run: e.Run, orchestrator: e.Orchestrator, session: e.Session, number: e.Turn, startedAt: -1, settledAt: -1,
		}
		if m.open == nil {
			m.open, m.settled = make(map[string]*turn), make(map[string]*turn)
		}
		m.open[e.Run] = t
	}
	i, _ := t.place(at, e.Phase)
	t.entries = slices.Insert(t.entries, i, entry{at, m.name(e.Phase), string(e.state())})
	t.number = max(t.number, e.Turn)
	switch e.Phase {
	case Started:
		t.startedAt = max(t.startedAt, at)
	case Settled:
		t.settledAt = max(t.settledAt, at)
	default:
		return
	}
	if t.settledAt > t.startedAt {
		delete(m.open, e.Run)
		m.settled[e.Run] = t
	} else {
		delete(m.settled, e.Run)
		m.open[e.Run] = t
	}
}

// find returns the turn of a run; nil if there is none. The caller holds mu.
func (m *Memory) find(run string) *turn {
	if t := m.open[run]; t != nil {
		return t
	}
	return m.settled[run]
}

// name returns the one copy of the name of a phase. The caller holds mu.
func (m *Memory) name(phase string) string {
	if m.names == nil {
		m.names = make(map[string]string)
	}
	if known, ok := m.names[phase]; ok {
		return known
	}
	phase = strings.Clone(phase)
	m.names[phase] = phase
	return phase
}

// place returns where an entry is, or would be.
func (t *turn) place(at int64, phase string) (i int, found bool) {
	return slices.BinarySearchFunc(t.entries, entry{at: at, phase: phase}, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.phase, b.phase))
	})
}

// Restore implements [Log].
func (m *Memory) Restore(ctx context.Context, run string) ([]Entry, error) {
	if err := checked(ctx, ValidateRun(run)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.find(run)
	if t == nil {
		return nil, nil
	}
	all := make([]Entry, len(t.entries))
	for i := range all {
		all[i] = t.entry(i)
	}
	return all, nil
}

func (t *turn) entry(i int) Entry {
	e := t.entries[i]
	return Entry{
		Run: t.run, Turn: t.number, Orchestrator: t.orchestrator, Session: t.session,
		Phase: e.phase, State: json.RawMessage(e.state), At: time.UnixMilli(e.at).UTC(),
	}
}

// Turns implements [Lister].
func (m *Memory) Turns(ctx context.Context, q Query) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		if err := checked(ctx, q.Validate()); err != nil {
			yield(Summary{}, err)
			return
		}
		for _, s := range m.selected(q) {
			if err := ctxcause.Of(ctx); err != nil {
				yield(Summary{}, err)
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// selected returns the turns that q selects. It copies no state of another turn.
func (m *Memory) selected(q Query) []Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts := []map[string]*turn{m.open, m.settled}
	if q.Open {
		parts = parts[:1]
	}
	var found []*turn
	now := time.Now()
	for _, part := range parts {
		for _, t := range part {
			if q.selects(t, now) {
				found = append(found, t)
			}
		}
	}
	slices.SortFunc(found, (*turn).compare)
	if q.Limit > 0 {
		found = found[:min(q.Limit, len(found))]
	}
	all := make([]Summary, len(found))
	for i, t := range found {
		all[i] = Summary{t.entry(0), t.entry(len(t.entries) - 1)}
	}
	return all
}

// selects reports whether q selects a turn. Open and Limit do not count.
func (q Query) selects(t *turn, now time.Time) bool {
	after := t.first().Compare(q.After)
	switch {
	case q.Orchestrator != "" && t.orchestrator != q.Orchestrator:
		return false
	case q.Session != "" && t.session != q.Session:
		return false
	case q.OlderThan > 0 && now.Sub(t.last()) < q.OlderThan:
		return false
	case q.AfterRun != "":
		return after > 0 || after == 0 && t.run > q.AfterRun
	}
	return q.After.IsZero() || after > 0
}

func (t *turn) first() time.Time { return time.UnixMilli(t.entries[0].at) }

func (t *turn) last() time.Time { return time.UnixMilli(t.entries[len(t.entries)-1].at) }

// compare orders turns by their first entries, and turns of one time by their runs.
func (t *turn) compare(o *turn) int {
	return cmp.Or(cmp.Compare(t.entries[0].at, o.entries[0].at), strings.Compare(t.run, o.run))
}

// Sweep implements store.Sweeper. It heeds no limit.
func (m *Memory) Sweep(ctx context.Context, _ int) (retired int, err error) {
	if m.Age <= 0 {
		return 0, nil
	}
	return m.Prune(ctx, time.Now().Add(-m.Age))
}

// Prune implements [Lister].
func (m *Memory) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	if err := checked(ctx, ValidatePrune(before)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for run, t := range m.settled {
		if time.UnixMilli(t.settledAt).Before(before) {
			delete(m.settled, run)
			forgotten++
		}
	}
	return forgotten, nil
}

// checked returns why a call cannot begin.
func checked(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	return ctxcause.Of(ctx)
}
