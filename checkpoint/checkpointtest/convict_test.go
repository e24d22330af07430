package checkpointtest_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

// Each broken store must be caught by the clause that it breaks. A store that only a real database can make wrong is in
// the tests of its backend.
func TestSuiteConvicts(t *testing.T) {
	convict(t, map[string]conviction{
		"one document, read, changed and written back": {"one-settles", func() store { return &document{mutant: newMutant()} }},
		"document under a takeover":                    {"takeover", func() store { return &document{mutant: newMutant()} }},
		"fence looked up, then written":                {"takeover", func() store { return exists{newMutant()} }},
		"epoch at least as high": {"fence-epoch", appending(func(m mutant, a *appended) {
			if f := m.fence(a.Key); a.Fence.Epoch >= f.Epoch {
				a.Fence = f
			}
		})},
		"nonce dropped": {"fence-nonce", appending(func(m mutant, a *appended) {
			if f := m.fence(a.Key); a.Fence.Epoch == f.Epoch {
				a.Fence = f
			}
		})},
		"aliases what comes out":           {"aliasing", func() store { return &aliases{mutant: newMutant()} }},
		"goes on after the loop has ended": {"sequences-end", func() store { return endless{newMutant()} }},
		"gives the same slices out twice": {"aliasing", granting(func(c *checkpoint.Claimed, err error) error {
			if c.Answered != nil && c.Answered.Turn == c.Last.Turn {
				c.Answered = new(*c.Last)
			}
			return err
		})},
		"keeps one more": {"keep-exactly", appending(func(_ mutant, a *appended) {
			if a.Keep > 0 && a.Keep < checkpoint.KeepAll {
				a.Keep++
			}
		})},
		"prunes what is owed":                    {"keep-owed", func() store { return &prunesOwed{mutant: newMutant()} }},
		"prefix as a pattern":                    {"sessions-prefix", func() store { return likes{newMutant()} }},
		"one session as a prefix":                {"sessions-one", listing(func(q *checkpoint.SessionQuery) { q.Prefix, q.Session = q.Prefix+q.Session, "" })},
		"claims and loads at once, then waits":   {"takeover", func() store { return staleClaim{newMutant()} }},
		"epochs start again after Delete":        {"delete-reborn", func() store { return &reissues{mutant: newMutant(), counts: map[checkpoint.Key]int64{}} }},
		"released lease appends":                 {"released", func() store { return &keepsReleased{newMutant(), map[checkpoint.Key]bool{}} }},
		"taken lease appends":                    {"claim-expired", appending(func(m mutant, a *appended) { a.Fence = m.fence(a.Key) })},
		"released and taken lease appends":       {"released-taken", appending(func(m mutant, a *appended) { a.Fence = m.fence(a.Key) })},
		"Delete misses a racing Append":          {"delete-append", func() store { return &orphans{mutant: newMutant()} }},
		"sequence holds the connection":          {"sequences-reentrant", func() store { return &holds{newMutant(), make(chan struct{}, 1)} }},
		"repeat recognised by turn number":       {"append-settled-by-another", func() store { return byNumber{newMutant()} }},
		"a run that is kept is told as appended": {"append-fresh", appending(func(_ mutant, a *appended) { a.Fresh = false })},
		"claim steals":                           {"claim-held", func() store { return steals{newMutant()} }},
		"an expired lease is refused":            {"expired-untaken", func() store { return &punctual{mutant: newMutant()} }},
		"lists what was only claimed":            {"sessions", func() store { return &listsClaimed{mutant: newMutant()} }},
		"what is given back is too long":         {"values-largest", func() store { return spaced{newMutant()} }},
	})
}

// Shorter, for the tables.
type store = checkpoint.Store

// A conviction is a broken store and the clause that must find it.
type conviction struct {
	clause string
	broken func() store
}

func convict(t *testing.T, stores map[string]conviction) {
	trial := suite.Trial[store]{
		Violations: checkpointtest.Violations,
		Blocking:   []string{"sequences-reentrant", "retry-over"},
	}
	for name, c := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, c.broken)
		})
	}
}

// The mutants convict only because the store that they spoil is right.
func TestSuiteAccepts(t *testing.T) {
	right := func() store { return altered{mutant: newMutant()} }
	for name, err := range checkpointtest.Violations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

// A mutant knows the current fence, so that a store built on it can let other fences in.
type mutant struct {
	*checkpoint.Memory
	mu      *sync.Mutex // protects following field
	current map[checkpoint.Key]lock.Fence
}

func newMutant() mutant {
	return mutant{new(checkpoint.Memory), new(sync.Mutex), make(map[checkpoint.Key]lock.Fence)}
}

func (m mutant) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.Memory.Claim(ctx, k, r)
	if err == nil {
		m.current[k] = c.Fence
	}
	return c, err
}

func (m mutant) fence(k checkpoint.Key) lock.Fence {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current[k]
}

func (m mutant) owned(ctx context.Context, l checkpoint.Lease) bool {
	lost, err := m.Renew(ctx, time.Hour, []checkpoint.Lease{l})
	return err == nil && len(lost) == 0
}

func (m mutant) newest(ctx context.Context, k checkpoint.Key) *checkpoint.Checkpoint {
	cp, err := checkpoint.Load(ctx, m.Memory, k, checkpoint.Newest)
	if err != nil {
		return nil
	}
	return &cp
}

// take claims with r, but from the current owner, not from r.From.
func (m mutant) take(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	r.From = lock.Fence{}
	c, err := m.Claim(ctx, k, r)
	if held, is := errors.AsType[*checkpoint.HeldError](err); is {
		r.From = held.Fence
		return m.Claim(ctx, k, r)
	}
	return c, err
}

// An appended is the arguments of an Append.
type appended struct {
	checkpoint.Lease
	checkpoint.AppendOptions
}

// An altered store changes what it is asked, or what it grants. A nil function changes nothing.
type altered struct {
	mutant
	claim   func(m mutant, k checkpoint.Key, r *checkpoint.ClaimRequest)
	granted func(c *checkpoint.Claimed, err error) error
	append  func(m mutant, a *appended)
	list    func(q *checkpoint.SessionQuery)
	retry   func(time.Duration) time.Duration
}

func (s altered) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if s.claim != nil {
		s.claim(s.mutant, k, &r)
	}
	c, err := s.mutant.Claim(ctx, k, r)
	if s.granted != nil {
		err = s.granted(&c, err)
	}
	return c, err
}

func (s altered) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	a := appended{l, o}
	if s.append != nil {
		s.append(s.mutant, &a)
	}
	return s.Memory.Append(ctx, a.Lease, cp, a.AppendOptions)
}

func (s altered) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if s.list != nil {
		s.list(&q)
	}
	return s.Memory.Sessions(ctx, q)
}

func (s altered) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if s.retry != nil {
		m.Retry = s.retry(m.Retry)
	}
	return s.Memory.Mark(ctx, l, m)
}

func claiming(claim func(m mutant, k checkpoint.Key, r *checkpoint.ClaimRequest)) func() store {
	return func() store { return altered{mutant: newMutant(), claim: claim} }
}

func granting(granted func(c *checkpoint.Claimed, err error) error) func() store {
	return func() store { return altered{mutant: newMutant(), granted: granted} }
}

// refusing returns another error in place of one.
func refusing(refusal, another error) func() store {
	return granting(func(_ *checkpoint.Claimed, err error) error {
		if errors.Is(err, refusal) {
			return another
		}
		return err
	})
}

func appending(append func(m mutant, a *appended)) func() store {
	return func() store { return altered{mutant: newMutant(), append: append} }
}

func listing(list func(q *checkpoint.SessionQuery)) func() store {
	return func() store { return altered{mutant: newMutant(), list: list} }
}

func retrying(retry func(time.Duration) time.Duration) func() store {
	return func() store { return altered{mutant: newMutant(), retry: retry} }
}

// pause takes as long as a statement.
func pause() { <-time.After(200 * time.Microsecond) }

// document keeps a session in one value that it reads, changes and writes back.
type document struct {
	mutant
	docs sync.Map // checkpoint.Key to []checkpoint.Checkpoint
}

func (d *document) doc(k checkpoint.Key) []checkpoint.Checkpoint {
	v, _ := d.docs.Load(k)
	doc, _ := v.([]checkpoint.Checkpoint)
	return doc
}

func (d *document) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := d.mutant.Claim(ctx, k, r)
	if doc := d.doc(k); err == nil && len(doc) > 0 {
		c.Last = &doc[len(doc)-1]
	}
	return c, err
}

func (d *document) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, _ checkpoint.AppendOptions,
) error {
	doc := d.doc(l.Key)
	switch {
	case !d.owned(ctx, l):
		return lock.ErrFenced
	case cp.Turn != len(doc):
		return checkpoint.ErrConflict
	}
	pause()
	d.docs.Store(l.Key, append(slices.Clone(doc), cp))
	return nil
}

// exists looks the fence up, as WHERE EXISTS (SELECT …) does, and then writes.
type exists struct{ mutant }

func (e exists) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if !e.owned(ctx, l) {
		return e.Memory.Append(ctx, l, cp, o)
	}
	pause()
	l.Fence = e.fence(l.Key)
	return e.Memory.Append(ctx, l, cp, o)
}

// endless lists all sessions, also after the loop has ended.
type endless struct{ mutant }

func (m endless) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for id, err := range m.mutant.Sessions(ctx, q) {
			_ = yield(id, err)
		}
	}
}

// aliases gives out its own slices.
type aliases struct {
	mutant
	kept sync.Map // RunID to checkpoint.Checkpoint
}

func (a *aliases) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for cp, err := range a.Memory.Turns(ctx, k, from) {
			same, _ := a.kept.LoadOrStore(cp.RunID, cp)
			if !yield(same.(checkpoint.Checkpoint), err) {
				return
			}
		}
	}
}

// prunesOwed keeps the newest turns and looks at nothing else.
type prunesOwed struct {
	mutant
	keep sync.Map // checkpoint.Key to int
}

func (p *prunesOwed) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	p.keep.Store(l.Key, o.Keep)
	return p.Memory.Append(ctx, l, cp, o)
}

func (p *prunesOwed) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		keep, _ := p.keep.Load(k)
		for cp, err := range p.Memory.Turns(ctx, k, from) {
			if newest := p.newest(ctx, k); newest.Turn-cp.Turn >= keep.(int) || !yield(cp, err) {
				return
			}
		}
	}
}

// likes takes _ for any character.
type likes struct{ mutant }

func (l likes) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	prefix := q.Prefix
	q.Prefix = ""
	return func(yield func(string, error) bool) {
		for id, err := range l.Memory.Sessions(ctx, q) {
			if len(id) >= len(prefix) && like(id[:len(prefix)], prefix) && !yield(id, err) {
				return
			}
		}
	}
}

func like(s, pattern string) bool {
	for i := range len(s) {
		if s[i] != pattern[i] && pattern[i] != '_' {
			return false
		}
	}
	return true
}

// staleClaim returns the newest turn as of when it began to wait.
type staleClaim struct{ mutant }

func (s staleClaim) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	last := s.newest(ctx, k)
	pause()
	c, err := s.mutant.Claim(ctx, k, r)
	c.Last = last
	return c, err
}

// reissues counts epochs in the head row, which Delete removes.
type reissues struct {
	mutant
	counts map[checkpoint.Key]int64
}

func (r *reissues) Claim(ctx context.Context, k checkpoint.Key, q checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := r.mutant.Claim(ctx, k, q)
	if err == nil {
		r.counts[k]++
		c.Fence.Epoch, c.Born = r.counts[k], 1
	}
	return c, err
}

func (r *reissues) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if f := r.fence(l.Key); l.Fence.Epoch == r.counts[l.Key] && l.Fence.Nonce == f.Nonce {
		l.Fence = f
	}
	return r.Memory.Append(ctx, l, cp, o)
}

func (r *reissues) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	l.Fence = r.fence(l.Key)
	return r.Memory.Mark(ctx, l, m)
}

func (r *reissues) Delete(ctx context.Context, l checkpoint.Lease) error {
	delete(r.counts, l.Key)
	l.Fence = r.fence(l.Key)
	return r.Memory.Delete(ctx, l)
}

// keepsReleased frees a released session for others and still serves its former owner.
type keepsReleased struct {
	mutant
	free map[checkpoint.Key]bool
}

func (r *keepsReleased) Claim(
	ctx context.Context, k checkpoint.Key, q checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if r.free[k] {
		q.From = r.fence(k)
	}
	delete(r.free, k)
	return r.mutant.Claim(ctx, k, q)
}

func (r *keepsReleased) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	r.free[l.Key] = r.free[l.Key] || m.Release
	m.Release = false
	return r.Memory.Mark(ctx, l, m)
}

// orphans deletes the turns that existed when Delete began. A single statement that waits for the head row does the
// same.
type orphans struct {
	mutant
	left sync.Map // checkpoint.Key to checkpoint.Checkpoint
}

func (o *orphans) Delete(ctx context.Context, l checkpoint.Lease) error {
	k := l.Key
	seen := o.newest(ctx, k)
	pause()
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.newest(ctx, k); last != nil && seen != nil && last.Turn > seen.Turn {
		o.left.Store(k, *last)
	}
	return o.Memory.Delete(ctx, l)
}

func (o *orphans) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	if cp, ok := o.left.Load(k); ok {
		return func(yield func(checkpoint.Checkpoint, error) bool) { yield(cp.(checkpoint.Checkpoint), nil) }
	}
	return o.Memory.Turns(ctx, k, from)
}

// holds has one connection, and a sequence keeps it while it yields.
type holds struct {
	mutant
	conn chan struct{}
}

func (h *holds) take(ctx context.Context) error {
	select {
	case h.conn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *holds) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := h.take(ctx); err != nil {
		return checkpoint.Claimed{}, err
	}
	defer func() { <-h.conn }()
	return h.mutant.Claim(ctx, k, r)
}

func (h *holds) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := h.take(ctx); err != nil {
			yield("", err)
			return
		}
		defer func() { <-h.conn }()
		for id, err := range h.Memory.Sessions(ctx, q) {
			if !yield(id, err) {
				return
			}
		}
	}
}

// byNumber takes a settled turn of the same number, and no other, for a repeat.
type byNumber struct{ mutant }

func (b byNumber) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if b.owned(ctx, l) {
		return b.Memory.Append(ctx, l, cp, o)
	}
	kept, err := checkpoint.Load(ctx, b.Memory, l.Key, cp.Turn)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound), err == nil && kept.RunID != cp.RunID:
		return lock.ErrFenced
	}
	return err
}

// steals takes the session from every owner.
type steals struct{ mutant }

func (s steals) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return s.take(ctx, k, r)
}

// punctual refuses a lease that has expired although no other process has claimed.
type punctual struct {
	mutant
	until sync.Map // lock.Fence to time.Time
}

func (p *punctual) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := p.mutant.Claim(ctx, k, r)
	p.until.Store(c.Fence, time.Now().Add(r.TTL))
	return c, err
}

func (p *punctual) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if until, ok := p.until.Load(l.Fence); ok && time.Now().After(until.(time.Time)) {
		return lock.ErrExpired
	}
	return p.Memory.Append(ctx, l, cp, o)
}

// listsClaimed lists every session that was ever claimed.
type listsClaimed struct {
	mutant
	mu  sync.Mutex
	ids []string
}

func (l *listsClaimed) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.ids, k.Session) {
		l.ids = append(l.ids, k.Session)
	}
	return l.mutant.Claim(ctx, k, r)
}

func (l *listsClaimed) Sessions(context.Context, checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range slices.Sorted(slices.Values(l.ids)) {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// A spaced gives states back as PostgreSQL does, with a space after each comma. It judges the size of a state as given.
type spaced struct{ mutant }

func (s spaced) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if len(cp.State) > 16<<20 {
		return checkpoint.ErrInvalid
	}
	cp.State = bytes.ReplaceAll(cp.State, []byte(`,`), []byte(`, `))
	return s.mutant.Append(ctx, l, cp, o)
}
