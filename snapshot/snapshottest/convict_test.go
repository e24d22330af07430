package snapshottest_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Each broken store must be caught by the clause that it breaks. Stores whose fault needs a real database are in the
// tests of their backend.
func TestSuiteConvicts(t *testing.T) {
	convict(t, map[string]conviction{
		"Save creates":                        {"save-never-creates", func() store { return upserts{new(snapshot.Memory)} }},
		"Save by a higher fence":              {"save-very-fence", func() store { return higherSaves{new(snapshot.Memory)} }},
		"Delete by a higher fence":            {"delete-very-fence", func() store { return higherDeletes{new(snapshot.Memory)} }},
		"Adopt reads first":                   {"adopt-save-race", func() store { return readsFirst{new(snapshot.Memory)} }},
		"Adopt is fenced by what it missed":   {"adopt-begin-race", func() store { return asksWhy{adoptsNothing{newDeletions(late)}} }},
		"another nonce at one epoch":          {"adopt-fenced", func() store { return epochOnly{new(snapshot.Memory)} }},
		"Begin overwrites":                    {"begin-in-flight", func() store { return overwrites{forgetful()} }},
		"two Begins win":                      {"begin-race", func() store { return looksFirst{forgetful(), new(sync.Mutex)} }},
		"a lost Begin gets neither":           {"begin-race", func() store { return neither{new(snapshot.Memory)} }},
		"Delete without id":                   {"delete-id", func() store { return anyRun{new(snapshot.Memory)} }},
		"Seq ignored":                         {"save-seq", func() store { return noSeq{new(snapshot.Memory)} }},
		"the same fence counts again":         {"adopt-again", func() store { return countsAgain{new(snapshot.Memory)} }},
		"attempts are not limited":            {"adopt-parks", func() store { return neverParks{new(snapshot.Memory)} }},
		"parking is a save":                   {"adopt-saved", func() store { return savesParked{new(snapshot.Memory)} }},
		"a parked run stays parked":           {"adopt-unparks", func() store { return parksForGood{new(snapshot.Memory)} }},
		"an ended run is parked":              {"adopt-ended", func() store { return parksEnded{new(snapshot.Memory)} }},
		"an ended run is brought back":        {"save-ended", func() store { return revives{forgetful()} }},
		"sequence holds the connection":       {"runs-reentrant", func() store { return &holds{new(snapshot.Memory), make(chan struct{}, 1)} }},
		"status is looked at after the limit": {"runs-status", func() store { return filtersLate{new(snapshot.Memory)} }},
		"Brief leaves nothing out":            {"runs-brief", asking(func(q *snapshot.Query) { q.Brief = false })},
		"Brief leaves too much out": {"runs-brief", listing(func(_ *snapshot.Memory, q snapshot.Query, r *snapshot.Run) {
			if q.Brief {
				r.Pause, r.NotBefore = 0, time.Time{} // when it is due
			}
		})},
		"Brief is of all statuses": {"runs-brief", asking(func(q *snapshot.Query) {
			if q.Brief {
				q.Status = ""
			}
		})},
		"Unattended is ignored":        {"runs-unattended", asking(func(q *snapshot.Query) { q.Unattended = false })},
		"Unattended is looked at late": {"runs-unattended", func() store { return attendsLate{new(snapshot.Memory)} }},
		"a list has every payload": {"runs-person", listing(func(m *snapshot.Memory, q snapshot.Query, r *snapshot.Run) {
			if found := find(context.Background(), m, r.Key); found != nil && !q.Brief {
				r.Payload = found.Payload
			}
		})},
		"a session has no payload": {"runs-person", listing(func(_ *snapshot.Memory, _ snapshot.Query, r *snapshot.Run) {
			if r.Status == snapshot.Suspended || r.Status == snapshot.Parked {
				r.Payload = nil
			}
		})},
		"a repeated Begin is taken for its own": {"begin-in-flight", func() store { return ownBegin{new(snapshot.Memory)} }},
	})
}

// These names are shorter, for the tables.
type (
	store    = snapshot.Store
	sweeping = snapshottest.SweepingStore
)

// A conviction is a broken store and the clause that must find it.
type conviction struct {
	clause string
	broken func() store
}

func convict(t *testing.T, stores map[string]conviction) {
	trial := suite.Trial[store]{
		Violations: snapshottest.Violations,
		Blocking:   []string{"runs-reentrant", "pause-over", "pause-bounds"},
	}
	for name, c := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, c.broken)
		})
	}
}

// The broken stores convict only because the store that they spoil is right.
func TestSuiteAccepts(t *testing.T) {
	for name, err := range snapshottest.Violations(t.Context(), asking(func(*snapshot.Query) {})) {
		t.Errorf("%s: %v", name, err)
	}
}

// find returns the session's run, or nil.
func find(ctx context.Context, m *snapshot.Memory, k snapshot.Key) *snapshot.Run {
	for r, err := range m.Runs(ctx, snapshot.Query{Key: k}) {
		if err == nil {
			return &r
		}
	}
	return nil
}

// A listed store asks for other runs than its caller, and changes what it finds.
type listed struct {
	*snapshot.Memory
	ask    func(q *snapshot.Query)
	change func(m *snapshot.Memory, q snapshot.Query, r *snapshot.Run)
}

func (l listed) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	l.ask(&q)
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range l.Memory.Runs(ctx, q) {
			if l.change(l.Memory, q, &r); !yield(r, err) {
				return
			}
		}
	}
}

func asking(ask func(q *snapshot.Query)) func() store {
	return func() store {
		return listed{new(snapshot.Memory), ask, func(*snapshot.Memory, snapshot.Query, *snapshot.Run) {}}
	}
}

func listing(change func(m *snapshot.Memory, q snapshot.Query, r *snapshot.Run)) func() store {
	return func() store { return listed{new(snapshot.Memory), func(*snapshot.Query) {}, change} }
}

// pause waits for as long as a statement takes.
func pause() { <-time.After(200 * time.Microsecond) }

type upserts struct{ *snapshot.Memory }

func (u upserts) Save(ctx context.Context, r snapshot.Run) error {
	if find(ctx, u.Memory, r.Key) == nil {
		_, err := u.Begin(ctx, r)
		return err
	}
	return u.Memory.Save(ctx, r)
}

// raise returns the fence of the run in place of a higher one.
func raise(ctx context.Context, m *snapshot.Memory, k snapshot.Key, f lock.Fence) lock.Fence {
	if in := find(ctx, m, k); in != nil && in.Fence.Epoch < f.Epoch {
		return in.Fence
	}
	return f
}

type higherSaves struct{ *snapshot.Memory }

func (h higherSaves) Save(ctx context.Context, r snapshot.Run) error {
	r.Fence = raise(ctx, h.Memory, r.Key, r.Fence)
	return h.Memory.Save(ctx, r)
}

type higherDeletes struct{ *snapshot.Memory }

func (h higherDeletes) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	return h.Memory.Delete(ctx, k, id, raise(ctx, h.Memory, k, f))
}

type readsFirst struct{ *snapshot.Memory }

func (r readsFirst) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	seen := find(ctx, r.Memory, k)
	pause()
	got, err := r.Memory.Adopt(ctx, k, f, attempts)
	if err == nil {
		got.Seq, got.Payload = seen.Seq, seen.Payload
	}
	return got, err
}

// asksWhy writes. If it has met no run, it then looks whether a run refused it.
type asksWhy struct{ adoptsNothing }

func (a asksWhy) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	pause()
	return a.adoptsNothing.Begin(ctx, r)
}

func (a asksWhy) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	pause()
	got, err := a.adoptsNothing.Adopt(ctx, k, f, attempts)
	if errors.Is(err, snapshot.ErrNotFound) {
		pause()
		if find(ctx, a.Memory, k) != nil {
			return got, lock.ErrFenced
		}
	}
	return got, err
}

func (a asksWhy) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	pause()
	return a.adoptsNothing.Delete(ctx, k, id, f)
}

type epochOnly struct{ *snapshot.Memory }

func (e epochOnly) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	if in := find(ctx, e.Memory, k); in != nil && in.Fence.Epoch == f.Epoch {
		f = in.Fence
	}
	return e.Memory.Adopt(ctx, k, f, attempts)
}

// forgetful returns a Memory in which drop leaves nothing.
func forgetful() *snapshot.Memory { return &snapshot.Memory{Remember: 1} }

// drop removes the session's run, under any owner.
func drop(ctx context.Context, m *snapshot.Memory, k snapshot.Key) error {
	if in := find(ctx, m, k); in != nil {
		return forgets{m}.Delete(ctx, k, in.ID, in.Fence)
	}
	return nil
}

type overwrites struct{ *snapshot.Memory }

func (o overwrites) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	return nil, errors.Join(drop(ctx, o.Memory, r.Key), func() error { _, err := o.Memory.Begin(ctx, r); return err }())
}

// looksFirst looks whether there is a run, and then writes.
type looksFirst struct {
	*snapshot.Memory
	mu *sync.Mutex // held for the second step
}

func (l looksFirst) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	in := find(ctx, l.Memory, r.Key)
	pause()
	if in != nil {
		return in, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return overwrites{l.Memory}.Begin(ctx, r)
}

// neither inserts if there is no run, and returns the run that it read before.
type neither struct{ *snapshot.Memory }

func (n neither) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	before := find(ctx, n.Memory, r.Key)
	pause()
	found, err := n.Memory.Begin(ctx, r)
	if found == nil {
		return nil, err
	}
	return before, err
}

type anyRun struct{ *snapshot.Memory }

func (a anyRun) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if in := find(ctx, a.Memory, k); in != nil {
		id = in.ID
	}
	return a.Memory.Delete(ctx, k, id, f)
}

type noSeq struct{ *snapshot.Memory }

func (n noSeq) Save(ctx context.Context, r snapshot.Run) error {
	seq := r.Seq
	if in := find(ctx, n.Memory, r.Key); in != nil {
		r.Seq = max(seq, in.Seq+1)
	}
	return n.Memory.Save(ctx, r)
}

type countsAgain struct{ *snapshot.Memory }

func (c countsAgain) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := c.Memory.Adopt(ctx, k, f, attempts)
	if err == nil {
		r.Attempt++
		r.Seq++
		err = c.Save(ctx, r)
	}
	return r, err
}

type neverParks struct{ *snapshot.Memory }

func (n neverParks) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	if attempts > 0 {
		attempts = 1 << 30
	}
	return n.Memory.Adopt(ctx, k, f, attempts)
}

type savesParked struct{ *snapshot.Memory }

func (s savesParked) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := s.Memory.Adopt(ctx, k, f, attempts)
	if errors.Is(err, snapshot.ErrParked) {
		r.Seq++
		err = errors.Join(err, s.Memory.Save(ctx, r))
	}
	return r, err
}

// parksForGood keeps what is parked out of what is due.
type parksForGood struct{ *snapshot.Memory }

func (p parksForGood) Save(ctx context.Context, r snapshot.Run) error {
	if in := find(ctx, p.Memory, r.Key); in != nil && in.Status == snapshot.Parked && r.Status == snapshot.Waiting {
		r.Status = snapshot.Parked
	}
	return p.Memory.Save(ctx, r)
}

type parksEnded struct{ *snapshot.Memory }

func (p parksEnded) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := p.Memory.Adopt(ctx, k, f, attempts)
	if attempts > 0 && r.Attempt >= attempts {
		return r, snapshot.ErrParked
	}
	return r, err
}

type revives struct{ *snapshot.Memory }

func (v revives) Save(ctx context.Context, r snapshot.Run) error {
	if in := find(ctx, v.Memory, r.Key); in != nil && in.Status == snapshot.Ended && in.Fence == r.Fence {
		_, err := overwrites(v).Begin(ctx, r)
		return err
	}
	return v.Memory.Save(ctx, r)
}

// holds has one connection, and a sequence keeps it while it yields.
type holds struct {
	*snapshot.Memory
	conn chan struct{}
}

func (h *holds) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		select {
		case h.conn <- struct{}{}:
		case <-ctx.Done():
			yield(snapshot.Run{}, ctx.Err())
			return
		}
		defer func() { <-h.conn }()
		for r, err := range h.Memory.Runs(ctx, q) {
			if !yield(r, err) {
				return
			}
		}
	}
}

type filtersLate struct{ *snapshot.Memory }

func (f filtersLate) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	status := q.Status
	q.Status = ""
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range f.Memory.Runs(ctx, q) {
			if (status == "" || r.Status == status) && !yield(r, err) {
				return
			}
		}
	}
}

// attendsLate leaves runs out after the limit.
type attendsLate struct{ *snapshot.Memory }

func (a attendsLate) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		all := q
		all.Unattended = false
		for r, err := range a.Memory.Runs(ctx, all) {
			if q.Selects(r.Status) && !yield(r, err) {
				return
			}
		}
	}
}

// ownBegin takes a run in flight with the same id for its own.
type ownBegin struct{ *snapshot.Memory }

func (o ownBegin) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := o.Memory.Begin(ctx, r)
	if found != nil && found.ID == r.ID {
		return nil, err
	}
	return found, err
}
