package deadline

import (
	"context"
	"sync"
	"time"
)

// Lingering is how long a request that may be granted outlives its sender. If the sender gave the request up, the
// request might still arrive, after the release that was to undo it. Then the grant would go unowned.
const Lingering = time.Second

// A Late is a context that ends some time after its parent: a request that is on its way may still be answered. Like a
// Context, it costs nothing until a caller waits for its end. The time begins when the parent ends, or when a caller
// begins to wait, if that is later.
type Late struct {
	context.Context // the parent
	after           time.Duration

	mu     sync.Mutex // protects following fields
	over   bool       // Cancel was called
	made   context.Context
	cancel context.CancelCauseFunc
	stop   func() bool // ends the wait for the parent
}

// After returns a Late that ends d after parent, with its cause, or when it is cancelled.
func After(parent context.Context, d time.Duration) *Late { return &Late{Context: parent, after: d} }

// Cancel ends the Late. The caller of After must call Cancel.
func (c *Late) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.made != nil {
		c.stop()
		c.cancel(nil)
	}
}

// Deadline returns the deadline of the parent, and some time more.
func (c *Late) Deadline() (time.Time, bool) {
	at, some := c.Context.Deadline()
	if some {
		at = at.Add(c.after)
	}
	return at, some
}

// Done makes the real context. No other method costs as much.
func (c *Late) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real().Done()
}

// Err returns nil until a caller has waited, or Cancel was called.
func (c *Late) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil && !c.over {
		return nil
	}
	return c.real().Err()
}

// Value finds the real context too, as that of a Context does.
func (c *Late) Value(key any) any {
	c.mu.Lock()
	made := c.made
	c.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return context.WithoutCancel(c.Context).Value(key)
}

func (c *Late) real() context.Context {
	if c.made == nil {
		c.made, c.cancel = context.WithCancelCause(context.WithoutCancel(c.Context))
		made, cancel := c.made, c.cancel
		c.stop = context.AfterFunc(c.Context, func() {
			timer := time.NewTimer(c.after)
			defer timer.Stop()
			select {
			case <-timer.C:
				cancel(context.Cause(c.Context))
			case <-made.Done():
			}
		})
	}
	if c.over {
		c.stop()
		c.cancel(nil)
	}
	return c.made
}
