package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Memory is a Store that lives and dies with the process. The zero value is ready.
type Memory struct {
	// Remember is how long Sweep leaves the fence of a session without a run; 0 or less means DefaultRemember.
	Remember time.Duration

	mu       sync.Mutex // protects following field
	sessions map[Key]*session
}

var (
	_ Store   = (*Memory)(nil)
	_ Sweeper = (*Memory)(nil)
	_ Joiner  = (*Memory)(nil)

	_ EffectJoiner = (*Memory)(nil)

	_ lock.Raiser = (*Memory)(nil)
)

// A session is the run in flight, or the fence of the last run.
type session struct {
	run Run
	// found is the highest epoch of a Begin that has found a run in flight.
	found int64
	// over is when the run was deleted; zero while the run is in flight.
	over time.Time
}

// fenced reports whether f is too low for the session.
func (s *session) fenced(f lock.Fence) bool {
	kept := s.run.Fence
	return f.Epoch < kept.Epoch || f.Epoch == kept.Epoch && f.Nonce != kept.Nonce
}

// spent reports whether no run may begin under f.
func (s *session) spent(f lock.Fence) bool { return f.Epoch <= max(s.run.Fence.Epoch, s.found) }

// inFlight returns the run in flight, or nil. s may be nil.
func (s *session) inFlight() *Run {
	if s == nil || !s.over.IsZero() {
		return nil
	}
	return &s.run
}

// Begin implements [Store].
func (m *Memory) Begin(ctx context.Context, r Run) (*Run, error) {
	if err := checked(ctx, r.Validate()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[r.Key]
	switch {
	case s.inFlight() != nil:
		s.found = max(s.found, r.Fence.Epoch)
		found := s.run.shown(now())
		return &found, nil
	case s != nil && s.spent(r.Fence):
		return nil, lock.ErrFenced
	}
	r = clone(r)
	r.StartedAt = now()
	r.stamp(r.StartedAt)
	if m.sessions == nil {
		m.sessions = make(map[Key]*session)
	}
	m.sessions[r.Key] = &session{run: r}
	return nil, nil
}

// Adopt implements [Store].
func (m *Memory) Adopt(ctx context.Context, k Key, f lock.Fence, maxAttempts int) (Run, error) {
	if err := checked(ctx, ValidateAdopt(k, f, maxAttempts)); err != nil {
		return Run{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[k]
	if s != nil && s.fenced(f) {
		return Run{}, lock.ErrFenced
	}
	r := s.inFlight()
	if r == nil {
		m.keep(s, k, f)
		return Run{}, ErrNotFound
	}
	if f != r.Fence && maxAttempts > 0 && r.Status != Parked && r.Status != Ended {
		if r.Attempt < maxAttempts {
			r.Attempt++
		} else {
			r.Status = Parked
		}
	}
	r.Fence = f
	adopted := r.shown(now())
	adopted.Parts = cloneParts(r.Parts)
	if maxAttempts > 0 && r.Status == Parked {
		return adopted, ErrParked
	}
	return adopted, nil
}

// keep makes f the fence of a session without a run.
func (m *Memory) keep(s *session, k Key, f lock.Fence) {
	if s == nil {
		s = new(session)
		if m.sessions == nil {
			m.sessions = make(map[Key]*session)
		}
		m.sessions[k] = s
	}
	s.run, s.over = Run{Key: k, Fence: f}, time.Now()
}

// Save implements [Store].
func (m *Memory) Save(ctx context.Context, r Run) error {
	if err := checked(ctx, r.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, err := m.owned(r)
	if old != nil {
		old.replace(r)
	}
	return err
}

// owned returns the run that a Save of r replaces; nil if r is a repeat or a late copy. The caller holds mu.
func (m *Memory) owned(r Run) (*Run, error) {
	old := m.sessions[r.Key].inFlight()
	switch {
	case old == nil || old.ID != r.ID || old.Fence != r.Fence:
		return nil, lock.ErrFenced
	case r.Seq <= old.Seq:
		return nil, nil
	case old.Status == Ended:
		return nil, lock.ErrFenced
	}
	return old, nil
}

// replace makes r what a Save of next leaves.
func (r *Run) replace(next Run) {
	next = clone(next)
	if len(next.Payload) == 0 {
		added := next.Parts
		next.Payload, next.Parts = r.Payload, maps.Clone(r.Parts)
		for name, doc := range added {
			if next.Parts == nil {
				next.Parts = make(map[string]json.RawMessage)
			}
			next.Parts[name] = doc
		}
	}
	next.StartedAt = r.StartedAt
	next.stamp(now())
	*r = next
}

// JoinEffects joins with a *ledger.Memory and a *turnlog.Memory. A caller that sees an effect or an entry which a
// SaveEffects has written waits here until the run is saved.
func (m *Memory) JoinEffects(effects ledger.Ledger, log turnlog.Log) SaveEffects {
	l, ok := effects.(*ledger.Memory)
	entries, logs := log.(*turnlog.Memory)
	if !ok || !logs && log != nil {
		return nil
	}
	return func(ctx context.Context, r Run, c Cargo) (taken bool, err error) {
		if err := checked(ctx, cmp.Or(r.Validate(), c.Validate(r, logs))); err != nil {
			return false, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		old, err := m.owned(r)
		if old == nil {
			return err == nil, err
		}
		carry := func() (bool, error) { return l.Carry(ctx, r.ID, r.Fence, c.Batch) }
		if len(c.Log) > 0 {
			taken, err = entries.Carry(c.Log, carry)
		} else {
			taken, err = carry()
		}
		if taken {
			old.replace(r)
		}
		return taken, err
	}
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, k Key, id string, f lock.Fence) error {
	if err := checked(ctx, ValidateDelete(k, id, f)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[k]
	switch r := s.inFlight(); {
	case s != nil && s.fenced(f):
		return lock.ErrFenced
	case r == nil || r.ID != id:
		return nil
	case r.Fence != f:
		return lock.ErrFenced
	}
	s.forget()
	return nil
}

// forget ends the run in flight, and keeps its fence.
func (s *session) forget() { s.run, s.over = Run{Key: s.run.Key, Fence: s.run.Fence}, time.Now() }

// Join joins with a *checkpoint.Memory. A caller that sees the turn which a Settle has appended waits here until the
// run is deleted.
func (m *Memory) Join(turns checkpoint.Store) Settle {
	t, ok := turns.(*checkpoint.Memory)
	if !ok {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (forgotten bool, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := t.Append(ctx, l, cp, o); err != nil {
			return false, err
		}
		s := m.sessions[l.Key]
		r := s.inFlight()
		forgotten = r != nil && r.ID == cp.RunID && r.Fence == l.Fence
		if forgotten {
			s.forget()
		}
		return forgotten, nil
	}
}

// Sweep forgets sessions whose last run was deleted longer ago than m.Remember.
func (m *Memory) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	if ctx.Err() != nil {
		return 0, ctxcause.Of(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := time.Now().Add(-cmp.Or(max(m.Remember, 0), DefaultRemember))
	for k, s := range m.sessions {
		if limit > 0 && forgotten == limit {
			break
		}
		if s.inFlight() == nil && s.over.Before(before) {
			delete(m.sessions, k)
			forgotten++
		}
	}
	return forgotten, nil
}

// raised is the nonce of a fence that Raise has ended. No caller has it, because nonces are random.
const raised = "raised"

// Raise implements lock.Raiser. It returns of how many sessions a fence was known.
func (m *Memory) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if err := checked(ctx, nil); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		if f := &s.run.Fence; f.Nonce != raised {
			*f = lock.Fence{Epoch: max(f.Epoch, time.Now().UnixMicro()), Nonce: raised}
			ended++
		}
	}
	return ended, nil
}

// Runs implements [Store]. It yields the runs that are in flight when the loop starts.
func (m *Memory) Runs(ctx context.Context, q Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if err := checked(ctx, q.Validate()); err != nil {
			yield(Run{}, err)
			return
		}
		for _, r := range m.list(q) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (m *Memory) list(q Query) []Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	var runs []Run
	at := now()
	for k, s := range m.sessions {
		r := s.inFlight()
		if r != nil && k.Orchestrator == q.Orchestrator && (q.Session == "" || k.Session == q.Session) &&
			k.Session > q.After && q.Selects(r.Status) {
			runs = append(runs, r.listed(q, at))
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return strings.Compare(a.Session, b.Session) })
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[:q.Limit]
	}
	return runs
}

// Schema returns "". It makes Memory a migrations.Schemer.
func (m *Memory) Schema() string { return "" }

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// checked returns err, the verdict on the arguments, or else the cause of a ctx that has ended.
func checked(ctx context.Context, err error) error {
	if err == nil {
		err = ctxcause.Of(ctx)
	}
	return err
}

// stamp sets when the run is saved, and until when it waits.
func (r *Run) stamp(at time.Time) {
	r.SavedAt, r.NotBefore = at, time.Time{}
	if r.Pause > 0 {
		r.NotBefore = at.Add(r.Pause).Truncate(time.Microsecond)
	}
}

// shown returns the run as a caller gets it, without its parts.
func (r *Run) shown(at time.Time) Run {
	c := *r
	c.Payload, c.Parts, c.Pause = slices.Clone(r.Payload), nil, max(0, r.NotBefore.Sub(at))
	c.Age = max(0, at.Sub(r.StartedAt))
	return c
}

// listed returns the run as a query gets it.
func (r *Run) listed(q Query, at time.Time) Run {
	c := *r
	if q.Session == "" && r.Status.person() {
		c.Payload = nil
	}
	if q.Brief {
		c.RequestID, c.Base, c.Payload, c.Error = "", "", nil, ""
	}
	return c.shown(at)
}

func clone(r Run) Run {
	r.Payload, r.Parts = slices.Clone(r.Payload), cloneParts(r.Parts)
	return r
}

func cloneParts(parts map[string]json.RawMessage) map[string]json.RawMessage {
	if len(parts) == 0 {
		return nil
	}
	c := make(map[string]json.RawMessage, len(parts))
	for name, doc := range parts {
		c[name] = slices.Clone(doc)
	}
	return c
}
