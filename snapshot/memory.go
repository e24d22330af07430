package snapshot

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
)

// Memory is a Store that lives and dies with the process. The zero value is ready.
type Memory struct {
	mu   sync.Mutex // protects following field
	runs map[Key]*Run
}

var _ Store = (*Memory)(nil)

func (m *Memory) Begin(ctx context.Context, r Run) (*Run, error) {
	if err := checked(ctx, r.Validate()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.runs[r.Key]; found != nil {
		in := clone(*found)
		return &in, nil
	}
	r = clone(r)
	r.StartedAt = now()
	r.SavedAt = r.StartedAt
	if m.runs == nil {
		m.runs = make(map[Key]*Run)
	}
	m.runs[r.Key] = &r
	return nil, nil
}

func (m *Memory) Adopt(ctx context.Context, k Key, f lock.Fence, maxAttempts int) (Run, error) {
	if err := checked(ctx, ValidateAdopt(k, f, maxAttempts)); err != nil {
		return Run{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[k]
	switch {
	case r == nil:
		return Run{}, ErrNotFound
	case f.Epoch < r.Fence.Epoch, f.Epoch == r.Fence.Epoch && f.Nonce != r.Fence.Nonce:
		return Run{}, lock.ErrFenced
	}
	if f != r.Fence && maxAttempts > 0 && r.Status != Parked && r.Status != Ended {
		if r.Attempt < maxAttempts {
			r.Attempt++
		} else {
			r.Status = Parked
		}
	}
	r.Fence = f
	if maxAttempts > 0 && r.Status == Parked {
		return clone(*r), ErrParked
	}
	return clone(*r), nil
}

func (m *Memory) Save(ctx context.Context, r Run) error {
	if err := checked(ctx, r.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.runs[r.Key]
	switch {
	case old == nil || old.ID != r.ID || old.Fence != r.Fence:
		return lock.ErrFenced
	case r.Seq <= old.Seq:
		return nil
	case old.Status == Ended:
		return lock.ErrFenced
	}
	r = clone(r)
	r.StartedAt, r.SavedAt = old.StartedAt, now()
	*old = r
	return nil
}

func (m *Memory) Delete(ctx context.Context, k Key, id string, f lock.Fence) error {
	if err := checked(ctx, ValidateDelete(k, id, f)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[k]
	switch {
	case r == nil || r.ID != id:
		return nil
	case r.Fence != f:
		return lock.ErrFenced
	}
	delete(m.runs, k)
	return nil
}

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
	for k, r := range m.runs {
		if k.Orchestrator == q.Orchestrator && (q.Session == "" || k.Session == q.Session) && k.Session > q.After && (q.Status == "" || r.Status == q.Status) {
			runs = append(runs, clone(*r))
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return strings.Compare(a.Session, b.Session) })
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[:q.Limit]
	}
	return runs
}

// Schema is on every concrete store; there is none to create here.
func (m *Memory) Schema() string { return "" }

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// checked returns why not to go on: an error of the arguments, or the end of ctx.
func checked(ctx context.Context, err error) error {
	if err == nil {
		err = ctxcause.Of(ctx)
	}
	return err
}

func clone(r Run) Run {
	r.Payload = slices.Clone(r.Payload)
	if !r.NotBefore.IsZero() {
		r.NotBefore = r.NotBefore.UTC().Truncate(time.Microsecond)
	}
	return r
}
