package redissnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/internal/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A barred entry of the index is one that no run relies on any more, by a script on its session. Why it may then be
// removed is in docs/decisions/0006-redis-runs.md.
type barred struct {
	session, token string
	at             string // the server's clock when it was barred
}

// leftovers are barred entries which the store has not yet removed. The next Begin takes them along: so Delete costs
// one round trip. Those that are lost with the process are found by readers.
type leftovers struct {
	mu      sync.Mutex // protects following field
	entries map[string][]barred
}

// maxLeftovers of one orchestrator, for a process that deletes and never begins.
const maxLeftovers = 64

// add reports whether it is time to remove them.
func (l *leftovers) add(orchestrator string, b barred) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = make(map[string][]barred)
	}
	l.entries[orchestrator] = append(l.entries[orchestrator], b)
	return len(l.entries[orchestrator]) >= maxLeftovers
}

// take returns those of an orchestrator, for the caller to remove.
func (l *leftovers) take(orchestrator string) []barred {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.entries[orchestrator]
	delete(l.entries, orchestrator)
	return taken
}

// indexKey returns the key of the index of an orchestrator's runs.
func (s *Store) indexKey(orchestrator string) string {
	return s.prefix + redisstore.Tag(orchestrator) + ":inflight"
}

// enter sees to it that the session has an entry other than stale, and returns its token and when it was seen. A new token is
// above the one that the session has barred with all before.
func (s *Store) enter(ctx context.Context, k snapshot.Key, stale barred, above string) (entry, seen string, err error) {
	args := append([]any{k.Session, stale.token, stale.at, above}, flat(s.gone.take(k.Orchestrator))...)
	r, err := s.redis.Run(ctx, enterScript, []string{s.indexKey(k.Orchestrator)}, args...)
	if err != nil {
		return "", "", indexError(err)
	}
	return r.Values[0], r.Values[1], nil
}

// drop removes entries that are barred.
func (s *Store) drop(ctx context.Context, orchestrator string, stale []barred) error {
	if len(stale) == 0 {
		return nil
	}
	_, err := s.redis.Run(ctx, dropScript, []string{s.indexKey(orchestrator)}, flat(stale)...)
	return err
}

// indexError says of what no script wrote in an index that the store is damaged, and not a run.
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
