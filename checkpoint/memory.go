package checkpoint

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/lock"
)

// Memory is a Store that lives and dies with the process. The zero value is ready.
type Memory struct {
	// For bots that share a Memory, as tests do. They are one process, with one pulse.
	processes
	home

	// TTL is for Sweep. If it is 0, sessions with a settled turn stay.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// DefaultUnsettled.
	Unsettled time.Duration

	mu       sync.Mutex // protects following fields
	sessions map[Key]*session
	owing    map[Key]struct{}
	// labeled are the sessions by a Key of their orchestrator and a label.
	labeled map[Key]map[Key]struct{}
	// epoch is the last one issued, for any session. Deleting a session does not bring an epoch back.
	epoch int64
}

var (
	_ Store        = (*Memory)(nil)
	_ Sweeper      = (*Memory)(nil)
	_ lock.Watcher = (*Memory)(nil)
	_ lock.Beater  = (*Memory)(nil)
	_ Inspector    = (*Memory)(nil)

	_ lock.Raiser = (*Memory)(nil)
)

// What a Memory has of other packages, under names that are not exported.
type (
	processes = lock.Processes
	home      = pulse.Home
)

// A session holds its turns, and what other backends keep in a head row.
type session struct {
	fence      lock.Fence // Nonce "" once released
	owner      string
	leaseUntil time.Time
	born       int64
	summarized int
	// owed is the oldest settled turn not yet delivered. It is -1 if all are delivered.
	owed   int
	failed int // failed deliveries of turn owed
	// retryAt is when the delivery of turn owed becomes due.
	retryAt time.Time
	labels  []Label
	first   int          // the turn of kept[0]
	kept    []Checkpoint // without gaps
	// array is the array of kept. It leaves room at its beginning when turns are pruned.
	array []Checkpoint
}

func (s *session) last() int { return s.first + len(s.kept) - 1 }

func (s *session) delivered() int {
	if s.owed < 0 {
		return s.last() + 1
	}
	return s.owed
}

// at returns the newest kept turn that is not after turn.
func (s *session) at(turn int) (Checkpoint, bool) {
	i := min(turn, s.last()) - s.first
	if i < 0 {
		return Checkpoint{}, false
	}
	return clone(s.kept[i]), true
}

func (s *session) newest(match func(*Checkpoint) bool) *Checkpoint {
	for i := len(s.kept) - 1; i >= 0; i-- {
		if match(&s.kept[i]) {
			cp := clone(s.kept[i])
			return &cp
		}
	}
	return nil
}

// Claim implements Store.
func (m *Memory) Claim(ctx context.Context, k Key, r ClaimRequest) (Claimed, error) {
	if err := checked(ctx, k.Validate(), r.Validate()); err != nil {
		return Claimed{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := m.sessions[k]
	switch {
	case s == nil && r.From != (lock.Fence{}):
		return Claimed{}, new(HeldError)
	case s == nil:
		m.epoch = max(m.epoch+1, now.UnixMicro())
		s = &session{born: m.epoch, owed: -1, fence: lock.Fence{Epoch: m.epoch, Nonce: r.Nonce}}
		if m.sessions == nil {
			m.sessions = make(map[Key]*session)
		}
		m.sessions[k] = s
	case s.fence.Nonce == r.Nonce: // its reply was lost
	case r.From == s.fence || r.From == (lock.Fence{}) && !s.leaseUntil.After(now):
		m.epoch = max(m.epoch+1, now.UnixMicro())
		s.fence = lock.Fence{Epoch: m.epoch, Nonce: r.Nonce}
	default:
		return Claimed{}, s.held(now)
	}
	s.owner, s.leaseUntil = r.Owner, now.Add(r.TTL)
	if r.Born > 0 && s.last() < 0 {
		s.born = r.Born
	}

	c := Claimed{
		Lease: Lease{k, s.fence}, Born: s.born, Summarized: s.summarized, Delivered: s.delivered(), Failed: s.failed,
	}
	c.Last = s.newest(func(*Checkpoint) bool { return true })
	if r.RequestID != "" {
		c.Answered = s.newest(func(cp *Checkpoint) bool { return cp.RequestID == r.RequestID })
	}
	return c, nil
}

// held returns the error that names the owner of the session, or none if its lease is over.
func (s *session) held(now time.Time) *HeldError {
	if !s.leaseUntil.After(now) {
		return new(HeldError)
	}
	return &HeldError{Owner: s.owner, Fence: s.fence}
}

// Renew implements Store.
func (m *Memory) Renew(ctx context.Context, ttl time.Duration, leases []Lease) (lost []Lease, err error) {
	if err := checked(ctx, ValidateRenew(ttl, leases)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	until := time.Now().Add(ttl)
	for _, l := range leases {
		if s := m.sessions[l.Key]; s != nil && s.fence == l.Fence {
			s.leaseUntil = until
		} else {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// Held implements Store.
func (m *Memory) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (owners map[string]string, err error) {
	if err := checked(ctx, ValidateHeld(orchestrator, sessions)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	owners = make(map[string]string)
	for _, id := range sessions {
		s := m.sessions[Key{Orchestrator: orchestrator, Session: id}]
		if s != nil && s.fence.Nonce != "" && time.Now().Before(s.leaseUntil) {
			owners[id] = s.owner
		}
	}
	return owners, nil
}

// Head implements Inspector.
func (m *Memory) Head(ctx context.Context, k Key) (Head, error) {
	if err := checked(ctx, k.Validate()); err != nil {
		return Head{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[k]
	if s == nil {
		return Head{}, ErrNotFound
	}
	h := Head{Turn: s.last(), First: s.first, Owed: s.last() + 1 - s.delivered(), Summarized: s.summarized}
	if left := time.Until(s.leaseUntil); s.fence.Nonce != "" && left > 0 {
		h.Owner, h.LeaseLeft = s.owner, left
	}
	return h, nil
}

// Append implements Store.
func (m *Memory) Append(ctx context.Context, l Lease, cp Checkpoint, o AppendOptions) error {
	keep, err := o.Kept()
	labels, wrong := o.Relabeled()
	if err := checked(ctx, l.Validate(), cp.Validate(), err, wrong); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[l.Key]
	if s == nil || s.fence != l.Fence || cp.Turn != s.last()+1 {
		return whyNot(s, l, cp, o)
	}
	now := time.Now()
	cp = cloneDocuments(cp)
	cp.Route, cp.SavedAt = s.route(cp.Route), now.UTC().Round(0)
	s.add(cp)
	if o.Owes && s.owed < 0 {
		s.owed = cp.Turn
		if m.owing == nil {
			m.owing = make(map[Key]struct{})
		}
		m.owing[l.Key] = struct{}{}
	}
	if labels != nil {
		m.relabel(l.Key, s, labels)
	}
	s.prune(keep)
	s.touch(now, o.Release)
	return nil
}

// relabel replaces the labels of a session.
func (m *Memory) relabel(k Key, s *session, labels []Label) {
	for _, l := range s.labels {
		at := Key{Orchestrator: k.Orchestrator, Session: l.Name}
		if delete(m.labeled[at], k); len(m.labeled[at]) == 0 {
			delete(m.labeled, at)
		}
	}
	s.labels = labels
	for _, l := range labels {
		at := Key{Orchestrator: k.Orchestrator, Session: l.Name}
		if m.labeled == nil {
			m.labeled = make(map[Key]map[Key]struct{})
		}
		if m.labeled[at] == nil {
			m.labeled[at] = make(map[Key]struct{})
		}
		m.labeled[at][k] = struct{}{}
	}
}

// has reports whether the session has the label that q asks for.
func (s *session) has(q SessionQuery) bool {
	by := q.DueBy()
	return q.Label == "" || slices.ContainsFunc(s.labels, func(l Label) bool {
		return l.Name == q.Label && (by.IsZero() || !l.At.IsZero() && !l.At.After(by))
	})
}

// whyNot explains an Append that found no head to move.
func whyNot(s *session, l Lease, cp Checkpoint, o AppendOptions) error {
	switch {
	case s == nil:
		return lock.ErrFenced
	case s.newest(func(kept *Checkpoint) bool { return kept.RunID == cp.RunID }) != nil:
		return o.Known()
	case s.fence != l.Fence:
		return lock.ErrFenced
	}
	return ErrConflict
}

// route returns the slice to keep for r: a copy, or that of the turn before, which mostly is the same.
func (s *session) route(r []string) []string {
	if n := len(s.kept); n > 0 && slices.Equal(r, s.kept[n-1].Route) {
		return s.kept[n-1].Route
	}
	return slices.Clone(r)
}

// add keeps a turn. Before it asks for more room, it uses the room of the pruned turns again.
func (s *session) add(cp Checkpoint) {
	if len(s.kept) == cap(s.kept) && len(s.kept) <= len(s.array)/2 {
		n := copy(s.array, s.kept)
		clear(s.array[n:])
		s.kept = s.array[:n]
	}
	full := len(s.kept) == cap(s.kept)
	s.kept = append(s.kept, cp)
	if full {
		s.array = s.kept[:cap(s.kept)]
	}
}

func (s *session) prune(keep int) {
	first := max(s.first, min(s.last()-keep+1, s.delivered()))
	clear(s.kept[:first-s.first])
	s.kept = s.kept[first-s.first:]
	s.first = first
}

// touch notes that the owner was here. Sweep counts from now, or from the end of the lease if that is later.
func (s *session) touch(now time.Time, release bool) {
	if release && s.fence.Nonce != "" {
		s.fence.Nonce = ""
		s.leaseUntil = now
	} else if s.leaseUntil.Before(now) {
		s.leaseUntil = now
	}
}

// Mark implements Store.
func (m *Memory) Mark(ctx context.Context, l Lease, mk Marks) error {
	if err := checked(ctx, l.Validate(), mk.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[l.Key]
	if s == nil || s.fence.Epoch != l.Fence.Epoch || s.fence.Nonce != l.Fence.Nonce && s.fence.Nonce != "" {
		if mk == (Marks{Release: true}) {
			return nil
		}
		return lock.ErrFenced
	}
	s.summarized = max(s.summarized, min(mk.Summarized, s.last()+1))
	if s.owed >= 0 && mk.Delivered > s.owed {
		s.owed = mk.Delivered
		s.failed, s.retryAt = 0, time.Time{}
		if s.owed > s.last() {
			s.owed = -1
			delete(m.owing, l.Key)
		}
	}
	if s.owed >= 0 && mk.Retry > 0 {
		s.failed, s.retryAt = s.failed+1, time.Now().Add(mk.Retry)
	}
	s.touch(time.Now(), mk.Release)
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, l Lease) error {
	if err := checked(ctx, l.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[l.Key]; s != nil && s.fence != l.Fence {
		return lock.ErrFenced
	}
	m.remove(l.Key)
	return nil
}

func (m *Memory) remove(k Key) {
	if s := m.sessions[k]; s != nil {
		m.relabel(k, s, nil)
	}
	delete(m.sessions, k)
	delete(m.owing, k)
}

// Turns implements Reader.
func (m *Memory) Turns(ctx context.Context, k Key, from int) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		if err := checked(ctx, k.Validate()); err != nil {
			yield(Checkpoint{}, err)
			return
		}
		for turn := from; ; {
			cp, ok := m.turn(k, turn)
			if !ok || !yield(cp, nil) {
				return
			}
			turn = cp.Turn - 1
		}
	}
}

func (m *Memory) turn(k Key, turn int) (Checkpoint, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[k]; s != nil {
		return s.at(turn)
	}
	return Checkpoint{}, false
}

// Sessions implements Reader.
func (m *Memory) Sessions(ctx context.Context, q SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := checked(ctx, q.Validate()); err != nil {
			yield("", err)
			return
		}
		for _, id := range m.list(q) {
			if !yield(id, nil) {
				return
			}
		}
	}
}

func (m *Memory) list(q SessionQuery) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	selects := func(k Key, s *session) bool {
		held := time.Until(s.retryAt)
		return k.Orchestrator == q.Orchestrator && s.last() >= 0 && (!q.Owing || s.owed >= 0) &&
			(!q.Due || held <= 0) && (q.HeldBack == 0 || held > q.HeldBack) && s.has(q)
	}
	if q.Session != "" {
		k := Key{Orchestrator: q.Orchestrator, Session: q.Session}
		if s := m.sessions[k]; s != nil && selects(k, s) {
			return []string{q.Session}
		}
		return nil
	}
	var ids []string
	add := func(k Key, s *session) {
		if selects(k, s) && strings.HasPrefix(k.Session, q.Prefix) && k.Session > q.After {
			ids = append(ids, k.Session)
		}
	}
	if some, ok := m.some(q); ok {
		for k := range some {
			add(k, m.sessions[k])
		}
	} else {
		for k, s := range m.sessions {
			add(k, s)
		}
	}
	slices.Sort(ids)
	if q.Limit > 0 && len(ids) > q.Limit {
		ids = ids[:q.Limit]
	}
	return ids
}

// some returns the sessions of which q selects some, if it does not select among all.
func (m *Memory) some(q SessionQuery) (some map[Key]struct{}, ok bool) {
	if q.Label != "" {
		return m.labeled[Key{Orchestrator: q.Orchestrator, Session: q.Label}], true
	}
	return m.owing, q.Owing
}

// Sweep implements Sweeper.
func (m *Memory) Sweep(ctx context.Context, limit int) (retired int, err error) {
	if ctx.Err() != nil {
		return 0, ctxcause.Of(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for k, s := range m.sessions {
		if limit > 0 && retired == limit {
			break
		}
		if ttl := m.ttl(s); s.owed < 0 && ttl > 0 && s.leaseUntil.Before(now.Add(-ttl)) {
			m.remove(k)
			retired++
		}
	}
	return retired, nil
}

// Raise implements lock.Raiser. It returns how many sessions had an owner.
func (m *Memory) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if err := checked(ctx); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, s := range m.sessions {
		if s.fence.Nonce == "" {
			continue
		}
		m.epoch = max(m.epoch+1, now.UnixMicro())
		s.fence = lock.Fence{Epoch: m.epoch}
		if s.leaseUntil.After(now) {
			s.leaseUntil = now
		}
		ended++
	}
	return ended, nil
}

// ttl returns how long s stays without an owner. 0 means for ever.
func (m *Memory) ttl(s *session) time.Duration {
	unsettled := cmp.Or(max(m.Unsettled, 0), DefaultUnsettled)
	if s.last() < 0 && (m.TTL <= 0 || unsettled < m.TTL) {
		return unsettled
	}
	return m.TTL
}

// Bots returns the names of the orchestrators that have a session, in byte order.
func (m *Memory) Bots(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for k := range m.sessions {
		names = append(names, k.Orchestrator)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Schema returns "". It makes Memory a migrations.Schemer.
func (m *Memory) Schema() string { return "" }

// checked returns the first reason not to go on: an error of the arguments, or the end of ctx.
func checked(ctx context.Context, errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctxcause.Of(ctx)
}

func clone(cp Checkpoint) Checkpoint {
	cp = cloneDocuments(cp)
	cp.Route = slices.Clone(cp.Route)
	return cp
}

func cloneDocuments(cp Checkpoint) Checkpoint {
	state, payload := len(cp.State), len(cp.Payload)
	both := append(append(make([]byte, 0, state+payload), cp.State...), cp.Payload...)
	if state > 0 {
		cp.State = both[:state:state]
	}
	if payload > 0 {
		cp.Payload = both[state:]
	}
	return cp
}
