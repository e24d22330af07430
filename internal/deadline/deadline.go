// Package deadline makes contexts that cost a timer only once a caller waits for their end. A call to a server waits. A
// call to a store in memory does not.
package deadline

import (
	"context"
	"sync"
	"time"
)

// A Context behaves like a context of context.WithDeadlineCause, but makes that context only if it is needed. If
// several reasons to end came before the first look at a Context, any of them counts.
type Context struct {
	context.Context // the parent
	at              time.Time
	cause           error

	mu     sync.Mutex // protects following fields
	over   bool       // Cancel was called
	made   context.Context
	cancel context.CancelFunc
}

// In returns a Context that ends after d, with its parent, or when it is cancelled. If cause is given, the end after d
// has this cause.
func In(parent context.Context, d time.Duration, cause error) *Context {
	return &Context{Context: parent, at: time.Now().Add(d), cause: cause}
}

// Cancel ends the Context. The caller of In must call Cancel.
func (c *Context) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.made != nil {
		c.cancel()
	}
}

// Deadline returns the deadline of c, or of the parent if that is earlier.
func (c *Context) Deadline() (time.Time, bool) {
	if at, some := c.Context.Deadline(); some && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// Done makes the real context, with its timer. No other method costs as much.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real().Done()
}

// Err looks at the clock itself, without a timer.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil && !c.over && c.Context.Err() == nil && time.Until(c.at) > 0 {
		return nil
	}
	return c.real().Err()
}

// Value finds the real context too. So package context makes children of c without a goroutine, and knows the cause of
// its end.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	made := c.made
	c.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return c.Context.Value(key)
}

func (c *Context) real() context.Context {
	if c.made == nil {
		c.made, c.cancel = context.WithDeadlineCause(c.Context, c.at, c.cause)
	}
	if c.over {
		c.cancel()
	}
	return c.made
}
