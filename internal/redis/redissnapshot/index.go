package redissnapshot

import (
	"sync"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// staleEntries are the barred entries that the store has not removed yet. The next Begin removes them, so that Delete
// costs one round trip. If the process ends before, readers find these entries.
type staleEntries struct {
	mu      sync.Mutex // protects following field
	entries map[string][]redisstore.Barred
}

// maxStale bounds the entries of one orchestrator, for a process that deletes and never begins.
const maxStale = 64

// add keeps b for later. It reports whether it is time to remove the kept entries.
func (l *staleEntries) add(orchestrator string, b redisstore.Barred) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = make(map[string][]redisstore.Barred)
	}
	l.entries[orchestrator] = append(l.entries[orchestrator], b)
	return len(l.entries[orchestrator]) >= maxStale
}

// take returns the kept entries of an orchestrator, for the caller to remove.
func (l *staleEntries) take(orchestrator string) []redisstore.Barred {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.entries[orchestrator]
	delete(l.entries, orchestrator)
	return taken
}
