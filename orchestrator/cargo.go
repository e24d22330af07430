package orchestrator

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
)

// A cargo are the outcomes of effects that wait for a save of the run to carry them. If no save comes within
// Effects.Linger, they are recorded by themselves.
type cargo struct {
	mu sync.Mutex // protects following fields

	// late are the outcomes that are not recorded. Those that a save carries at this moment are among them.
	late []ledger.Finish

	// timer records them after Effects.Linger; nil if none is late.
	timer *time.Timer

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
