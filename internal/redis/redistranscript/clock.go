package redistranscript

import (
	"strconv"
	"sync"
	"time"
)

// A clock knows the time of the server without asking: what a server has said last, and how long ago. It may be slow,
// by as long as that answer took. It is never fast, except if the servers of a cluster differ.
type clock struct {
	mu   sync.Mutex // protects following fields
	told int64      // µs
	at   time.Time  // when the server has said so
}

// fresh is how long the clock of this process may measure the time of the server.
const fresh = time.Minute

// now returns the time in µs, or "" if it is not known.
func (c *clock) now() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.at)
	if passed > fresh {
		return ""
	}
	return strconv.FormatInt(c.told+passed.Microseconds(), 10)
}

// tell sets the clock.
func (c *clock) tell(text string) {
	told, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return // no server says so
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.at = told, time.Now()
}
