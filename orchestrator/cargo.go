package orchestrator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A cargo are the outcomes of effects, and the entries of the turn log, that wait for a save of the run to carry them.
// If no save comes within Effects.Linger, the outcomes are recorded by themselves. Entries wait until the run is saved,
// settles or is left.
type cargo struct {
	// enter records an entry by itself.
	enter func(ctx context.Context, e turnlog.Entry) error

	mu sync.Mutex // protects following fields

	// late are the outcomes that are not recorded. Those that a save carries at this moment are among them.
	late []ledger.Finish

	// timer records them after Effects.Linger; nil if none is late.
	timer *time.Timer

	// entries are those that are not recorded, also while a save carries them.
	entries []turnlog.Entry

	// open says that saves of the run carry effects. It is false before the run is in the store, and when it ends.
	open bool
}

// add lets an outcome wait. It returns false if the outcome must be recorded now.
func (c *cargo) add(f ledger.Finish, linger time.Duration, record func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || linger <= 0 {
		return false
	}
	c.late = append(c.late, f)
	if c.timer == nil {
		c.timer = time.AfterFunc(linger, record)
	}
	return true
}

// put lets an outcome wait until the next save or the end of the run.
func (c *cargo) put(f ledger.Finish) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, f)
}

// all returns the outcomes that are not recorded.
func (c *cargo) all() []ledger.Finish {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.late)
}

// waits reports whether the outcome of an effect is not recorded.
func (c *cargo) waits(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.late, func(f ledger.Finish) bool { return f.ID == id })
}

// recorded removes outcomes that the ledger has.
func (c *cargo) recorded(all []ledger.Finish) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = slices.DeleteFunc(c.late, func(f ledger.Finish) bool {
		return slices.ContainsFunc(all, func(g ledger.Finish) bool { return f.ID == g.ID })
	})
	if len(c.late) == 0 && c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// note lets an entry wait.
func (c *cargo) note(e turnlog.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = append(c.entries, e)
}

// noted returns the entries that are not recorded.
func (c *cargo) noted() []turnlog.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.entries)
}

// logged removes the n oldest entries, which the turn log has.
func (c *cargo) logged(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = slices.Delete(c.entries, 0, n)
}

// carries says whether saves carry effects from now on.
func (c *cargo) carries(open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
}

func (c *cargo) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}
