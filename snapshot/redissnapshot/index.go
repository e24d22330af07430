package redissnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/internal/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A barred entry is an index entry that the session's script has marked as unused: no run relies on it any more.
// docs/decisions/0006-redis-runs.md says why it may then be removed.
type barred struct {
	session, token string
	// at is the server's clock when the entry was barred.
	at string
}

// staleEntries are the barred entries that the store has not removed yet. The next Begin removes them, so that Delete
// costs one round trip. If the process ends before, readers find these entries.
type staleEntries struct {
	mu      sync.Mutex // protects following field
	entries map[string][]barred
}

// maxStale bounds the entries of one orchestrator, for a process that deletes and never begins.
const maxStale = 64

// add keeps b for later. It reports whether it is time to remove the kept entries.
func (l *staleEntries) add(orchestrator string, b barred) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = make(map[string][]barred)
	}
	l.entries[orchestrator] = append(l.entries[orchestrator], b)
	return len(l.entries[orchestrator]) >= maxStale
}

// take returns the kept entries of an orchestrator, for the caller to remove.
func (l *staleEntries) take(orchestrator string) []barred {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.entries[orchestrator]
	delete(l.entries, orchestrator)
	return taken
}

// enter makes sure that the session has an entry other than stale. It returns the entry's token and when the entry was
// seen. A new token is above the token above, up to which the session has barred all tokens.
func (s *Store) enter(ctx context.Context, k snapshot.Key, stale barred, above string) (entry, seen string, err error) {
	args := append([]any{k.Session, stale.token, stale.at, above}, flat(s.gone.take(k.Orchestrator))...)
	r, err := s.redis.Run(ctx, enterScript, []string{s.indexKey(k.Orchestrator)}, args...)
	if err != nil {
		return "", "", indexError(err)
	}
	return r.Value(0), r.Value(1), nil
}

// drop removes barred entries.
func (s *Store) drop(ctx context.Context, orchestrator string, stale []barred) error {
	if len(stale) == 0 {
		return nil
	}
	_, err := s.redis.Run(ctx, dropScript, []string{s.indexKey(orchestrator)}, flat(stale)...)
	return err
}

// indexError turns a fault of an index, in a value that no script wrote, into an ErrDamaged of the whole store.
func indexError(err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return fmt.Errorf("%w: index: %s", snapshot.ErrDamaged, fault.What)
	}
	return err
}

func flat(entries []barred) []any {
	args := make([]any, 0, 3*len(entries))
	for _, b := range entries {
		args = append(args, b.session, b.token, b.at)
	}
	return args
}
