package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/keeper"
)

// errStopped is the cause of a context that Stop has ended.
var errStopped = errors.New("agent: stopped")

// lookEvery is how often a run looks whether another process wants it to stop.
const lookEvery = time.Second

// wish returns the wish that this run stop, or nil.
func (a *Agent[C]) wish(ctx context.Context, t *Turn[C]) (*Interrupt, error) {
	it, err := a.wishes.Item(ctx, a.key(t.Session), inbox.Stop, t.RunID)
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return nil, nil
	case err != nil && !errors.Is(err, inbox.ErrDamaged):
		return nil, err
	}
	i := &Interrupt{Run: t.RunID}
	_ = json.Unmarshal(it.Data, &i.Reason)
	return i, nil
}

// interruptible returns a context that ends when somebody wants this run to stop, in any process. done ends it.
func (a *Agent[C]) interruptible(ctx context.Context, t *Turn[C]) (inner context.Context, done func()) {
	inner, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	a.running[t.RunID] = cancel
	a.mu.Unlock()
	var looking sync.WaitGroup
	looking.Go(func() {
		for keeper.Sleep(inner, lookEvery) == nil {
			if i, _ := a.wish(inner, t); i != nil {
				cancel(errStopped)
			}
		}
	})
	return inner, func() {
		a.mu.Lock()
		delete(a.running, t.RunID)
		a.mu.Unlock()
		cancel(nil)
		looking.Wait()
	}
}

// stopped reports whether Stop has ended a context.
func stopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStopped) }
