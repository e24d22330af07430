package redissnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
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

// enter makes sure that the session has an entry other than stale. It returns the entry's token and when the entry was
// seen. A new token is above the token above, up to which the session has barred all tokens.
func (s *Store) enter(
	ctx context.Context, k snapshot.Key, stale redisstore.Barred, above string,
) (entry, seen string, err error) {
	gone := s.gone.take(k.Orchestrator)
	entry, seen, err = s.redis.Enter(ctx, s.indexKey(k.Orchestrator), k.Session, stale, above, gone...)
	return entry, seen, indexError(err)
}

// drop removes barred entries.
func (s *Store) drop(ctx context.Context, orchestrator string, stale []redisstore.Barred) error {
	return s.redis.Drop(ctx, s.indexKey(orchestrator), stale...)
}

// indexError turns a fault of an index, in a value that no script wrote, into an ErrDamaged of the whole store.
func indexError(err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return fmt.Errorf("%w: index: %s", snapshot.ErrDamaged, fault.What)
	}
	return err
}
