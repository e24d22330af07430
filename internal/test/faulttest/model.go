package faulttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// A model says how a store must answer. It knows no clock: its owner says when leases are over.
type model struct {
	lives map[string]*life // by session
	// epochs is the last epoch of each session, issued in any life.
	epochs map[string]int64
}

// A life is a session from its first claim until it is deleted.
type life struct {
	fence      lock.Fence // the latest
	lease      leaseState
	born       int64
	turns      []*checkpoint.Checkpoint // all settled turns
	pruned     int                      // earlier turns are gone
	summarized int
	delivered  int
	failed     int      // deliveries of the oldest owed
	due        dueState // of that delivery
	labels     []checkpoint.Label
}

// has reports whether the session has the label that q asks for.
func (l *life) has(q checkpoint.SessionQuery) bool {
	return q.Label == "" || slices.ContainsFunc(l.labels, func(label checkpoint.Label) bool {
		return label.Name == q.Label && (q.By.IsZero() || !label.At.IsZero() && !label.At.After(q.By))
	})
}

type dueState int

const (
	isDue  dueState = iota
	mayBe           // may be held back or due
	isHeld          // held back past the test's end
)

type leaseState int

const (
	free    leaseState = iota // released
	live                      // lasts longer than the test
	fading                    // may be over or not
	expired                   // over, but not claimed yet
)

// An answer is how a claim may end.
type answer int

const (
	granted answer = iota
	refused
	either
)

func newModel() model {
	return model{lives: map[string]*life{}, epochs: map[string]int64{}}
}

func (l *life) ownedBy(f lock.Fence) bool { return l != nil && l.fence == f && l.lease != free }

func (l *life) kept() []*checkpoint.Checkpoint {
	if l == nil {
		return nil
	}
	return l.turns[l.pruned:]
}

func (l *life) newest(match func(*checkpoint.Checkpoint) bool) *checkpoint.Checkpoint {
	for _, cp := range slices.Backward(l.kept()) {
		if match(cp) {
			return cp
		}
	}
	return nil
}

func (l *life) keptRun(run string) bool {
	return l.newest(func(cp *checkpoint.Checkpoint) bool { return cp.RunID == run }) != nil
}

func (m *model) mayClaim(id, nonce string, from lock.Fence) answer {
	l := m.lives[id]
	switch {
	case l != nil && l.lease != free && l.fence.Nonce == nonce:
		return granted
	case from != (lock.Fence{}):
		if l.ownedBy(from) {
			return granted
		}
		return refused
	case l == nil, l.lease == free, l.lease == expired:
		return granted
	case l.lease == fading:
		return either
	}
	return refused
}

// claim applies a granted claim. If the fence is wrong, claim says why.
func (m *model) claim(id, nonce string, got lock.Fence, state leaseState) error {
	l := m.lives[id]
	if l != nil && l.lease != free && l.fence.Nonce == nonce {
		l.lease = state
		if got != l.fence {
			return fmt.Errorf("fence %v for the nonce that owns %v", got, l.fence)
		}
		return nil
	}
	if got.Nonce != nonce || got.Epoch <= m.epochs[id] {
		return fmt.Errorf("fence %v for nonce %s after epoch %d", got, nonce, m.epochs[id])
	}
	if l == nil {
		l = &life{born: got.Epoch}
		m.lives[id] = l
	}
	m.epochs[id] = got.Epoch
	l.fence, l.lease = got, state
	return nil
}

// bear notes the Born that a granted claim asked for, if it is not 0.
func (m *model) bear(id string, born int64) {
	if l := m.lives[id]; born > 0 && len(l.turns) == 0 {
		l.born = born
	}
}

func (m *model) settle(id string, f lock.Fence, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	l := m.lives[id]
	switch {
	case l.ownedBy(f) && cp.Turn == len(l.turns):
	case l != nil && l.keptRun(cp.RunID):
		return o.Known()
	case !l.ownedBy(f):
		return lock.ErrFenced
	default:
		return checkpoint.ErrConflict
	}
	if l.delivered == cp.Turn && !o.Owes {
		l.delivered++
	}
	l.turns = append(l.turns, &cp)
	if o.Relabel {
		l.labels = o.Labels
	}
	keep := o.Keep
	if keep == 0 {
		keep = checkpoint.DefaultKeep
	}
	l.pruned = max(l.pruned, min(len(l.turns)-keep, l.delivered))
	if o.Release {
		l.lease = free
	}
	return nil
}

func (m *model) mark(id string, f lock.Fence, mk checkpoint.Marks) error {
	l := m.lives[id]
	if l == nil || l.fence != f {
		if mk == (checkpoint.Marks{Release: true}) {
			return nil
		}
		return lock.ErrFenced
	}
	l.summarized = max(l.summarized, min(mk.Summarized, len(l.turns)))
	if delivered := min(mk.Delivered, len(l.turns)); delivered > l.delivered {
		l.delivered, l.failed, l.due = delivered, 0, isDue
	}
	if mk.Retry > 0 && l.delivered < len(l.turns) {
		l.failed, l.due = l.failed+1, isHeld
		if mk.Retry <= short {
			l.due = mayBe
		}
	}
	if mk.Release {
		l.lease = free
	}
	return nil
}

func (m *model) remove(id string, f lock.Fence) error {
	if l := m.lives[id]; l != nil && !l.ownedBy(f) {
		return lock.ErrFenced
	}
	delete(m.lives, id)
	return nil
}

// renew reports whether the lease is lost.
func (m *model) renew(id string, f lock.Fence, state leaseState) bool {
	l := m.lives[id]
	if !l.ownedBy(f) {
		return true
	}
	l.lease = state
	return false
}

// expire ends every lease that could end, and makes every delivery due that was held back for a moment.
func (m *model) expire() {
	for _, l := range m.lives {
		if l.lease == fading {
			l.lease = expired
		}
		if l.due == mayBe {
			l.due = isDue
		}
	}
}

// names reports whether the refusal of a claim may name this owner.
func (m *model) names(id string, held checkpoint.HeldError) bool {
	nobody := held == checkpoint.HeldError{}
	l := m.lives[id]
	if l == nil || l.lease == free || l.lease == expired {
		return nobody
	}
	return held == checkpoint.HeldError{Owner: l.fence.Nonce, Fence: l.fence} || nobody && l.lease == fading
}

// sweep retires what is idle and returns how many sessions that were.
func (m *model) sweep(settledStay bool) int {
	retired := 0
	for id, l := range m.lives {
		if settledStay && len(l.turns) > 0 {
			continue
		}
		if (l.lease == free || l.lease == expired) && l.delivered == len(l.turns) {
			delete(m.lives, id)
			retired++
		}
	}
	return retired
}

// from returns the kept turns from turn downwards.
func (m *model) from(id string, turn int) []*checkpoint.Checkpoint {
	var down []*checkpoint.Checkpoint
	for _, cp := range slices.Backward(m.lives[id].kept()) {
		if cp.Turn <= turn {
			down = append(down, cp)
		}
	}
	return down
}

// list returns the sessions that q selects, without its limit. A store must return those in must, and may add those in
// may.
func (m *model) list(q checkpoint.SessionQuery) (must, may []string) {
	for id, l := range m.lives {
		owing := l.delivered < len(l.turns)
		switch {
		case len(l.turns) == 0, !l.has(q), !strings.HasPrefix(id, q.Prefix), id <= q.After, q.Owing && !owing, q.Due &&
			l.due == isHeld:
		case q.Due && l.due == mayBe:
			may = append(may, id)
		default:
			must = append(must, id)
		}
	}
	return must, may
}

// listed returns an error unless got is an answer that q allows.
func (m *model) listed(q checkpoint.SessionQuery, got []string) error {
	must, may := m.list(q)
	left := map[string]bool{}
	for _, id := range append(may, must...) {
		left[id] = true
	}
	last := ""
	for _, id := range got {
		if !left[id] || id <= last {
			return fmt.Errorf("%+v: got %q, want %q and perhaps %q", q, got, must, may)
		}
		last = id
		delete(left, id)
	}
	full := q.Limit > 0 && len(got) == q.Limit
	for _, id := range must {
		if left[id] && (!full || id < last) {
			return fmt.Errorf("%+v: got %q, want %q and perhaps %q", q, got, must, may)
		}
	}
	if q.Limit > 0 && len(got) > q.Limit {
		return fmt.Errorf("%+v: got %q", q, got)
	}
	return nil
}
