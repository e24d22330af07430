package orchestrator

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/ledger"
)

// An underWay is an attempt at an effect. ask says that a person is asked if its outcome is not known.
type underWay struct {
	attempt int
	ask     bool
}

// A book notes the effects that one flight has named and issued.
type book struct {
	mu sync.Mutex // protects following fields

	// busy are the effects that a call is at work on. A second call for one of them waits.
	busy map[string]chan struct{}

	// open are the effects that were issued, with their attempts, and whose outcome is not recorded.
	open map[string]underWay

	// unknown are the effects that are in doubt, as far as this execution knows.
	unknown map[string]*InDoubtError

	// left are the effects that an earlier owner of the run has left, and that the code which runs now has to ask for:
	// they are open, or a person has answered for them.
	left map[string]ledger.Effect

	// asked are the effects that were named, each with the branch or the hook that has named it.
	asked map[string]asker

	// recorded are the Pure effects that an earlier owner has recorded in this iteration, and missed the names of those
	// that were called without a record, each by the branch or the hook.
	recorded map[string]ledger.Effect
	missed   map[asker]string

	// upcoming are the effects that functions of this iteration have announced for the next one. boarding are those
	// that its save has issued, and that nobody has named so far.
	upcoming []ledger.Effect
	boarding map[string]ledger.Effect

	// issuing counts the calls that may still issue an effect. closed says that no other may.
	issuing sync.WaitGroup
	closed  bool

	// failed says that the ledger or the turn log has not answered. Nothing runs after that.
	failed error
}

// enter waits until no other call is at work on an effect.
func (b *book) enter(ctx context.Context, id string) (leave func(), err error) {
	for {
		b.mu.Lock()
		before := b.busy[id]
		if before == nil {
			mine := make(chan struct{})
			if b.busy == nil {
				b.busy, b.open = make(map[string]chan struct{}), make(map[string]underWay)
			}
			b.busy[id] = mine
			b.mu.Unlock()
			return func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				delete(b.busy, id)
				close(mine)
			}, nil
		}
		b.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctxcause.Of(ctx)
		}
	}
}

// begin says that a call may issue an effect. It calls issued when it has.
func (b *book) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failed != nil:
		return b.failed
	case b.closed:
		return errOver
	}
	b.issuing.Add(1)
	return nil
}

// issued notes whether a call has issued an effect, as an attempt that is not 0.
func (b *book) issued(id string, now underWay) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.attempt > 0 {
		b.open[id] = now
	}
	b.issuing.Done()
}

// known notes that the outcome of an effect is recorded.
func (b *book) known(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, id)
	delete(b.unknown, id)
}

// doubt notes that an effect is in doubt.
func (b *book) doubt(id string, d *InDoubtError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unknown == nil {
		b.unknown = make(map[string]*InDoubtError)
	}
	b.unknown[id] = d
}

// doubts returns the effects that are in doubt.
func (b *book) doubts() []*InDoubtError {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.unknown))
}

// foresee notes effects of the next iteration.
func (b *book) foresee(all []ledger.Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.upcoming = append(b.upcoming, all...)
}

// foreseen returns what foresee has noted, once.
func (b *book) foreseen() []ledger.Effect {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.upcoming
	b.upcoming = nil
	return all
}

// ahead notes effects that a save has issued.
func (b *book) ahead(all []ledger.Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.boarding = make(map[string]ledger.Effect, len(all))
	for _, e := range all {
		b.boarding[e.ID] = e
	}
}

// board reports whether a save has issued e, and nobody has named e since. If it has the same arguments, e is under way
// from now on.
func (b *book) board(e ledger.Effect) (issued, same bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	saved, ok := b.boarding[e.ID]
	if !ok || b.closed || b.failed != nil {
		return false, false
	}
	delete(b.boarding, e.ID)
	if same = saved.Class == e.Class && saved.ArgsSum == e.ArgsSum; same {
		b.open[e.ID] = underWay{1, e.Class == ledger.Ask}
	}
	return true, same
}

// ashore returns the effects that a save has issued and that nobody has named. Nobody can any more.
func (b *book) ashore() map[string]ledger.Effect {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.boarding
	b.boarding = nil
	return left
}

// attempt returns the attempt as which an effect is open; 0 if it is not.
func (b *book) attempt(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[id].attempt
}

// ask notes that a function has named an effect.
func (b *book) ask(id string, by asker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked == nil {
		b.asked = make(map[string]asker)
	}
	b.asked[id] = by
}

// askedBy returns the effects that a branch has named, and that an earlier owner has left or that are in doubt. If the
// branch is saved, nobody asks for them again.
func (b *book) askedBy(by asker) (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, who := range b.asked {
		_, left := b.left[id]
		_, open := b.open[id]
		if who == by && (left || open || b.unknown[id] != nil) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// unasked returns the effects that an earlier owner has left, and that nobody has asked for.
func (b *book) unasked() (all []ledger.Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, e := range b.left {
		if _, asked := b.asked[id]; !asked {
			all = append(all, e)
		}
	}
	return all
}

// miss notes that a Pure effect was not found although an earlier owner of the run has recorded some.
func (b *book) miss(by asker, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.recorded) == 0 {
		return
	}
	if b.missed == nil {
		b.missed = make(map[asker]string)
	}
	b.missed[by] = name
}

// stray returns the name of an effect that a function has called, if it was recorded under this name, and nobody has
// asked for the record. It returns each name once.
func (b *book) stray(by asker) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, missed := b.missed[by]
	if !missed {
		return ""
	}
	delete(b.missed, by)
	for id, e := range b.recorded {
		if _, asked := b.asked[id]; !asked && e.Name == name && e.Intent == by.intent {
			delete(b.recorded, id)
			return name
		}
	}
	return ""
}

// fail notes that the ledger or the turn log has not answered.
func (b *book) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
}

// failure returns why nothing may run any more.
func (b *book) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// over reports whether the run ends.
func (b *book) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// close lets no call issue an effect any more, and returns the effects that are open.
func (b *book) close() map[string]underWay {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.issuing.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.open)
}
