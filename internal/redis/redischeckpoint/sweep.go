package redischeckpoint

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// A sweeper remembers how far the index of each orchestrator was swept. It knows the orchestrators that this Store has
// claimed for.
type sweeper struct {
	mu   sync.Mutex // protects following field
	from map[string]string
}

// serves adds the index of an orchestrator to the indexes to sweep.
func (w *sweeper) serves(orchestrator string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.from[orchestrator]; ok {
		return
	}
	if w.from == nil {
		w.from = make(map[string]string)
	}
	w.from[orchestrator] = redisstore.First
}

func (w *sweeper) all() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]string, len(w.from))
	for orchestrator, from := range w.from {
		all[orchestrator] = from
	}
	return all
}

func (w *sweeper) reached(orchestrator, from string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from[orchestrator] = from
}

// Sweep removes the index entries of sessions that have expired, and returns how many. Redis has removed the sessions.
// What was said in them goes before its entry, so that a Sweep that is cut off is repeated.
// A call looks at limit entries at most of each orchestrator that this Store has claimed for. The next call looks at
// the entries that follow. It looks at as many entries of labels, and does not count them. If limit is 0, Sweep looks
// at all entries. If an index or a session cannot be reached, Sweep goes on, and returns an error at the end. Without
// Options.TTL it does nothing.
func (s *Store) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if s.idle == 0 {
		return 0, redisstore.Checked(ctx)
	}
	var failed error
	for orchestrator, from := range s.sweeper.all() {
		most := limit - removed
		if limit > 0 && most == 0 {
			break
		}
		n, err := s.sweep(ctx, index{orchestrator, false}, from, most)
		removed += n
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("redis: sweep %q: %w", orchestrator, err))
		}
	}
	for orchestrator, from := range s.labels.all() {
		if err := s.sweepLabels(ctx, orchestrator, from, limit); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("redis: sweep labels of %q: %w", orchestrator, err))
		}
	}
	return removed, failed
}

// sweep looks at limit entries, page by page. If limit is 0, it looks at all entries. It passes over sessions that it
// cannot reach.
func (s *Store) sweep(ctx context.Context, x index, from string, limit int) (removed int, err error) {
	if limit <= 0 {
		from = redisstore.First
	}
	tour := s.redis.Tour()
	var left error
	for seen := 0; limit <= 0 || seen < limit; {
		size := maxEntries
		if limit > 0 {
			size = min(size, limit-seen)
		}
		page, err := s.redis.List(ctx, s.indexKey(x), from, redisstore.Last, size)
		if err != nil {
			return removed, err
		}
		found, stale, err := s.look(ctx, tour, x, page, checkpoint.SessionQuery{})
		if err == nil {
			var failed error
			stale, failed = s.silence(ctx, x, stale)
			left = cmp.Or(left, failed)
			err = s.drop(ctx, x, stale)
		}
		if err != nil {
			return removed, err
		}
		for _, f := range found {
			if redisstore.IsAway(f.err) {
				left = cmp.Or(left, f.err)
			}
		}
		seen, removed = seen+len(page), removed+len(stale)
		if len(page) < size {
			s.sweeper.reached(x.orchestrator, redisstore.First)
			break
		}
		from = redisstore.Past(page[len(page)-1].Session)
		s.sweeper.reached(x.orchestrator, from)
	}
	return removed, left
}

// silence deletes what was said in sessions that are gone. It returns those of which nothing is left.
func (s *Store) silence(
	ctx context.Context, x index, gone []redisstore.Entry,
) (silent []redisstore.Entry, failed error) {
	if s.said == nil || len(gone) == 0 {
		return gone, nil
	}
	keys := make([]checkpoint.Key, len(gone))
	for i, e := range gone {
		keys[i] = checkpoint.Key{Orchestrator: x.orchestrator, Session: e.Session}
	}
	for i, err := range s.said(ctx, keys, time.Duration(s.idle)*time.Millisecond) {
		if failed = cmp.Or(failed, err); err == nil {
			silent = append(silent, gone[i])
		}
	}
	return silent, failed
}
