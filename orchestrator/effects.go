package orchestrator

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/ledger"
)

// An asker is the branch, or the hook, that has named an effect.
type asker struct {
	in     place
	intent string
	item   int
}

// An underWay is an attempt at an effect. ask says that a person is asked if its outcome is not known.
type underWay struct {
	attempt int
	ask     bool
}

// effects holds the effects that an execution has issued.
type effects struct {
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

	// issuing counts the calls that may still issue an effect. closed says that no other may.
	issuing sync.WaitGroup
	closed  bool

	// failed says that the ledger or the turn log has not answered. Nothing runs after that.
	failed error
}

// enter waits until no other call is at work on an effect.
func (fx *effects) enter(ctx context.Context, id string) (leave func(), err error) {
	for {
		fx.mu.Lock()
		before := fx.busy[id]
		if before == nil {
			mine := make(chan struct{})
			if fx.busy == nil {
				fx.busy, fx.open = make(map[string]chan struct{}), make(map[string]underWay)
			}
			fx.busy[id] = mine
			fx.mu.Unlock()
			return func() {
				fx.mu.Lock()
				defer fx.mu.Unlock()
				delete(fx.busy, id)
				close(mine)
			}, nil
		}
		fx.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctxcause.Of(ctx)
		}
	}
}

// begin says that a call may issue an effect. It calls issued when it has.
func (fx *effects) begin() error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	switch {
	case fx.failed != nil:
		return fx.failed
	case fx.closed:
		return errOver
	}
	fx.issuing.Add(1)
	return nil
}

// issued notes whether a call has issued an effect, as an attempt that is not 0.
func (fx *effects) issued(id string, now underWay) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if now.attempt > 0 {
		fx.open[id] = now
	}
	fx.issuing.Done()
}

// finished notes that the outcome of an effect is recorded.
func (fx *effects) finished(id string) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	delete(fx.open, id)
	delete(fx.unknown, id)
}

// doubt notes that an effect is in doubt.
func (fx *effects) doubt(id string, d *InDoubtError) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.unknown == nil {
		fx.unknown = make(map[string]*InDoubtError)
	}
	fx.unknown[id] = d
}

// doubts returns the effects that are in doubt.
func (fx *effects) doubts() []*InDoubtError {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return slices.Collect(maps.Values(fx.unknown))
}

// attempt returns the attempt as which an effect is open; 0 if it is not.
func (fx *effects) attempt(id string) int {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.open[id].attempt
}

// ask notes that a function has named an effect.
func (fx *effects) ask(id string, by asker) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.asked == nil {
		fx.asked = make(map[string]asker)
	}
	fx.asked[id] = by
}

// askedBy returns the effects that a branch has named, and that an earlier owner has left or that are in doubt. If the
// branch is saved, nobody asks for them again.
func (fx *effects) askedBy(by asker) (ids []string) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	for id, who := range fx.asked {
		_, left := fx.left[id]
		_, open := fx.open[id]
		if who == by && (left || open || fx.unknown[id] != nil) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// unasked returns the effects that an earlier owner has left, and that nobody has asked for.
func (fx *effects) unasked() (all []ledger.Effect) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	for id, e := range fx.left {
		if _, asked := fx.asked[id]; !asked {
			all = append(all, e)
		}
	}
	return all
}

// fail notes that the ledger or the turn log has not answered.
func (fx *effects) fail(err error) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.failed == nil {
		fx.failed = err
	}
}

// failure returns why nothing may run any more.
func (fx *effects) failure() error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.failed
}

// over reports whether the run ends.
func (fx *effects) over() bool {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.closed
}

// close lets no call issue an effect any more, and returns the effects that are open.
func (fx *effects) close() map[string]underWay {
	fx.mu.Lock()
	fx.closed = true
	fx.mu.Unlock()
	fx.issuing.Wait()
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return maps.Clone(fx.open)
}
