// Package deadline makes contexts that cost a timer only once somebody waits for their end. A call to a server does; one to
// a store in memory does not.
package deadline

import (
	"context"
	"sync"
	"time"
)

// A Context is what context.WithDeadlineCause returns, made when it is needed. If several reasons to end came before
// anybody looked, any of them counts.
type Context struct {
	context.Context // the parent
	at              time.Time
	cause           error

	mu     sync.Mutex // protects following fields
	over   bool       // cancelled
	made   context.Context
	cancel context.CancelFunc
}

// In returns a Context that ends after d, with a cause if one is given, with its parent, or when it is cancelled.
func In(parent context.Context, d time.Duration, cause error) *Context {
	return &Context{Context: parent, at: time.Now().Add(d), cause: cause}
}

// Cancel ends it. Who has made one has to.
func (c *Context) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.made != nil {
		c.cancel()
	}
}

// Deadline is the parent's, if that is earlier.
func (c *Context) Deadline() (time.Time, bool) {
	if at, some := c.Context.Deadline(); some && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// Done is what costs.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real().Done()
}

// Err tells the time by itself.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil && !c.over && c.Context.Err() == nil && time.Until(c.at) > 0 {
		return nil
	}
	return c.real().Err()
}

// Value finds the real context too, which is how package context makes children of it without a goroutine, and knows the
// cause of its end.
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
