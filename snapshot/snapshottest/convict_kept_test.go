package snapshottest_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// These stores keep the wrong things after a run was deleted.
func TestSuiteConvictsKept(t *testing.T) {
	convict(t, map[string]conviction{
		"Begin knows no fence that is kept":   {"begin-late", func() store { return newForgets() }},
		"the epoch is kept without the nonce": {"begin-late", func() store { return newDeletions(epochs) }},
		"an equal fence begins":               {"begin-copy", func() store { return newDeletions(fences) }},
		"an equal fence begins another id":    {"begin-copy", func() store { return newDeletions(fenceAndID) }},
		"the id alone is kept":                {"begin-copy", func() store { return newDeletions(idOrFence) }},
		"a Begin that finds leaves no trace":  {"begin-found", func() store { return newDeletions(late) }},
		"a Begin that finds takes over":       {"begin-found", func() store { return takesFound{new(snapshot.Memory)} }},
		"Adopt knows no fence that is kept":   {"adopt-late", func() store { return newForgets() }},
		"Adopt wants a higher fence":          {"adopt-late", func() store { return adoptsHigher{newDeletions(late)} }},
		"Save brings a deleted run back":      {"save-late", func() store { return savesDeleted{newDeletions(late)} }},
		"Delete knows no fence that is kept":  {"delete-late", func() store { return newForgets() }},
		"Delete of another id needs no fence": {"delete-late", func() store { return deletesUnknown{new(snapshot.Memory)} }},
		"the fence of Begin is kept":          {"kept-highest", func() store { return newKeepsBegun() }},
		"Delete of nothing keeps its fence":   {"kept-asked", func() store { return keepsAsked{newDeletions(late)} }},
		"one fence for all sessions":          {"kept-separate", func() store { return newDeletions(late).shared() }},
		"what is kept is listed":              {"kept-unseen", func() store { return listsKept{newDeletions(late)} }},
		"a low fence finds no run":            {"begin-in-flight", func() store { return fencedFirst{forgetful()} }},
		"Begin looks, then writes":            {"late-begin-race", func() store { return newDeletions(late).slow() }},
		"Adopt keeps no fence without a run":  {"kept-adopt", func() store { return adoptsNothing{newDeletions(late)} }},
		"Adopt looks, then keeps its fence":   {"adopt-kept-race", func() store { return newDeletions(late).slow() }},
		"a copy of Begin looks, then writes":  {"begin-copy-race", func() store { return newDeletions(late).slow() }},
	})
}

// Each broken sweeper must be caught by the clause that it breaks.
func TestSweeperConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		broken func(m *snapshot.Memory) sweeping
	}{
		"it never forgets":              {"forgotten", func(m *snapshot.Memory) sweeping { return neverSweeps{m} }},
		"it forgets at once":            {"young", func(m *snapshot.Memory) sweeping { m.Remember = 1; return m }},
		"the default is no time":        {"default", func(m *snapshot.Memory) sweeping { m.Remember = 1; return m }},
		"less than no time is no time":  {"negative", func(m *snapshot.Memory) sweeping { m.Remember = 1; return m }},
		"it deletes what has ended":     {"in-flight", func(m *snapshot.Memory) sweeping { return sweepsEnded{m} }},
		"it counts from the first run":  {"again", func(m *snapshot.Memory) sweeping { return &sweepsFirst{Memory: m} }},
		"what Adopt keeps goes at once": {"adopted", func(m *snapshot.Memory) sweeping { m.Remember = 1; return m }},
		"the limit is ignored":          {"limit", func(m *snapshot.Memory) sweeping { return unlimited{m} }},
		"it goes on when ctx is over":   {"cancelled", func(m *snapshot.Memory) sweeping { return unstoppable{m} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[func(time.Duration) sweeping]{
				Violations: snapshottest.SweepViolations,
				Blocking:   []string{"forgotten"},
			}.Convict(t, c.clause, func() func(time.Duration) sweeping {
				return func(remember time.Duration) sweeping { return c.broken(&snapshot.Memory{Remember: remember}) }
			})
		})
	}
}

// forgets keeps nothing of a deleted run.
type forgets struct{ *snapshot.Memory }

func newForgets() forgets { return forgets{forgetful()} }

func (f forgets) Delete(ctx context.Context, k snapshot.Key, id string, fence lock.Fence) error {
	if err := f.Memory.Delete(ctx, k, id, fence); err != nil {
		return err
	}
	pause()
	_, err := f.Sweep(ctx, 0)
	return err
}

// Deletions is a Memory that forgets, with a list of the runs that were deleted last. refuses decides by the list
// whether a Begin is too late. All other methods go by the fence.
type deletions struct {
	forgets
	refuses func(begin, kept snapshot.Run) bool
	wait    func()
	key     func(snapshot.Key) snapshot.Key
	mu      *sync.Mutex
	last    map[snapshot.Key]snapshot.Run
}

func newDeletions(refuses func(begin, kept snapshot.Run) bool) deletions {
	same := func(k snapshot.Key) snapshot.Key { return k }
	return deletions{newForgets(), refuses, func() {}, same, new(sync.Mutex), make(map[snapshot.Key]snapshot.Run)}
}

// slow looks at the list in one step and writes in another. A Delete may come and go between the two.
func (l deletions) slow() deletions {
	l.wait = func() { pause(); pause(); pause() }
	return l
}

// shared has one entry of the list for all sessions.
func (l deletions) shared() deletions {
	l.key = func(snapshot.Key) snapshot.Key { return snapshot.Key{} }
	return l
}

func (l deletions) kept(k snapshot.Key) snapshot.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[l.key(k)]
}

func (l deletions) keep(r snapshot.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.key(r.Key)] = r
}

func (l deletions) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if l.refuses(r, l.kept(r.Key)) && find(ctx, l.Memory, r.Key) == nil {
		return nil, lock.ErrFenced
	}
	l.wait()
	return l.Memory.Begin(ctx, r)
}

func (l deletions) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	kept := l.kept(k).Fence
	if low(f, kept) {
		return snapshot.Run{}, lock.ErrFenced
	}
	if find(ctx, l.Memory, k) == nil {
		l.wait()
		if f != kept {
			l.keep(snapshot.Run{Key: k, Fence: f})
		}
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	return l.Memory.Adopt(ctx, k, f, attempts)
}

func (l deletions) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if low(f, l.kept(k).Fence) {
		return lock.ErrFenced
	}
	in := find(ctx, l.Memory, k)
	err := l.Memory.Delete(ctx, k, id, f)
	if err == nil && in != nil && in.ID == id {
		l.keep(*in)
		return l.forgets.Delete(ctx, k, id, f)
	}
	return err
}

func low(f, kept lock.Fence) bool {
	return f.Epoch < kept.Epoch || f.Epoch == kept.Epoch && f.Nonce != kept.Nonce
}

func late(r, kept snapshot.Run) bool { return r.Fence.Epoch <= kept.Fence.Epoch }

func fenceAndID(r, kept snapshot.Run) bool {
	return low(r.Fence, kept.Fence) || r.ID == kept.ID && r.Fence == kept.Fence
}

func epochs(r, kept snapshot.Run) bool {
	return r.Fence.Epoch < kept.Fence.Epoch || r.Fence == kept.Fence && r.ID == kept.ID
}
func fences(r, kept snapshot.Run) bool    { return low(r.Fence, kept.Fence) }
func idOrFence(r, kept snapshot.Run) bool { return low(r.Fence, kept.Fence) || r.ID == kept.ID }

// takesFound makes a Begin the owner of the run that the Begin finds.
type takesFound struct{ *snapshot.Memory }

func (t takesFound) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := t.Memory.Begin(ctx, r)
	if found != nil && found.Fence.Epoch < r.Fence.Epoch {
		_, err = t.Adopt(ctx, r.Key, r.Fence, 0)
	}
	return found, err
}

type adoptsHigher struct{ deletions }

func (a adoptsHigher) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	if f.Epoch <= a.kept(k).Fence.Epoch {
		return snapshot.Run{}, lock.ErrFenced
	}
	return a.deletions.Adopt(ctx, k, f, attempts)
}

// savesDeleted takes the entry of a deleted run for the run.
type savesDeleted struct{ deletions }

func (s savesDeleted) Save(ctx context.Context, r snapshot.Run) error {
	if kept := s.kept(r.Key); kept.ID == r.ID && kept.Fence == r.Fence {
		_, err := s.Memory.Begin(ctx, r)
		return err
	}
	return s.Memory.Save(ctx, r)
}

// deletesUnknown returns nil from a Delete that finds no such run.
type deletesUnknown struct{ *snapshot.Memory }

func (d deletesUnknown) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if in := find(ctx, d.Memory, k); in != nil && in.ID != id {
		return nil
	}
	return d.Memory.Delete(ctx, k, id, f)
}

// keepsBegun keeps the fence under which a run began.
type keepsBegun struct {
	deletions
	begun map[string]snapshot.Run
}

func newKeepsBegun() keepsBegun { return keepsBegun{newDeletions(late), make(map[string]snapshot.Run)} }

func (b keepsBegun) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := b.deletions.Begin(ctx, r)
	if found == nil && err == nil {
		b.begun[r.ID] = r
	}
	return found, err
}

func (b keepsBegun) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	err := b.deletions.Delete(ctx, k, id, f)
	if r, ok := b.begun[id]; ok && err == nil {
		b.keep(r)
	}
	return err
}

// adoptsNothing leaves no trace of an Adopt that finds no run.
type adoptsNothing struct{ deletions }

func (a adoptsNothing) Adopt(
	ctx context.Context, k snapshot.Key, f lock.Fence, attempts int,
) (snapshot.Run, error) {
	if find(ctx, a.Memory, k) == nil && !low(f, a.kept(k).Fence) {
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	return a.deletions.Adopt(ctx, k, f, attempts)
}

// keepsAsked keeps the fence of a Delete that finds no run.
type keepsAsked struct{ deletions }

func (a keepsAsked) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	err := a.deletions.Delete(ctx, k, id, f)
	if err == nil && find(ctx, a.Memory, k) == nil && f != a.kept(k).Fence {
		a.keep(snapshot.Run{Key: k, Fence: f})
	}
	return err
}

type listsKept struct{ deletions }

func (l listsKept) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range l.Memory.Runs(ctx, q) {
			if !yield(r, err) {
				return
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for k, r := range l.last {
			if (q.Session == "" || q.Session == k.Session) && !yield(r, nil) {
				return
			}
		}
	}
}

// fencedFirst looks at the fence before it looks for a run.
type fencedFirst struct{ *snapshot.Memory }

func (f fencedFirst) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if in := find(ctx, f.Memory, r.Key); in != nil && low(r.Fence, in.Fence) {
		return nil, lock.ErrFenced
	}
	return f.Memory.Begin(ctx, r)
}

type neverSweeps struct{ *snapshot.Memory }

func (neverSweeps) Sweep(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() }

type sweepsEnded struct{ *snapshot.Memory }

func (s sweepsEnded) Sweep(ctx context.Context, limit int) (int, error) {
	for _, session := range []string{"running", "ended"} {
		k := snapshot.Key{Orchestrator: "bot", Session: session}
		if in := find(ctx, s.Memory, k); in != nil && in.Status == snapshot.Ended {
			if err := s.Memory.Delete(ctx, k, in.ID, in.Fence); err != nil {
				return 0, err
			}
		}
	}
	return s.Memory.Sweep(ctx, limit)
}

// sweepsFirst looks when a run of the session was first deleted.
type sweepsFirst struct {
	*snapshot.Memory
	seen bool
}

func (s *sweepsFirst) Sweep(ctx context.Context, limit int) (int, error) {
	if s.seen {
		s.Remember = 1
		pause()
	}
	n, err := s.Memory.Sweep(ctx, limit)
	s.seen = s.seen || n > 0
	return n, err
}

type unlimited struct{ *snapshot.Memory }

func (u unlimited) Sweep(ctx context.Context, _ int) (int, error) { return u.Memory.Sweep(ctx, 0) }

type unstoppable struct{ *snapshot.Memory }

func (u unstoppable) Sweep(ctx context.Context, limit int) (int, error) {
	return u.Memory.Sweep(context.WithoutCancel(ctx), limit)
}
