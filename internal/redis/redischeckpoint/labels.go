package redischeckpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// An entry of the index of labels has the name label, zero byte, time or "", zero byte, session. Label, zero byte and
// time are a place. A label with a time has two entries, and one of them is without the time.

// places returns the places of labels.
func places(labels []checkpoint.Label) []string {
	var all []string
	for _, l := range labels {
		all = append(all, l.Name+"\x00")
		if !l.At.IsZero() {
			all = append(all, l.Name+"\x00"+stamp(l.At))
		}
	}
	return all
}

// stamp returns a time so that later ones are greater as text.
func stamp(t time.Time) string { return fmt.Sprintf("%016d", t.UnixMilli()) }

func (s *Store) labelsKey(orchestrator string) string { return s.redis.Key(":labels", orchestrator) }

// label enters a session at places, and returns the tokens of its entries by their places.
// docs/decisions/0078-labels-of-a-session.md says why no entry is missing.
func (s *Store) label(ctx context.Context, l checkpoint.Lease, places []string) (map[string]string, error) {
	random := rand.Text()
	tokens := make([]string, len(places))
	for {
		args := []any{l.Fence.Epoch, random}
		for i, place := range places {
			args = append(args, place+"\x00"+l.Session, tokens[i])
		}
		r, err := s.redis.OnIndex(ctx, labelScript, s.labelsKey(l.Orchestrator), args...)
		if err != nil {
			return nil, err
		}
		for i := range places {
			tokens[i] = r.Value(i)
		}
		if r.Status == "OK" {
			break
		}
	}
	entered := make(map[string]string)
	for i, place := range places {
		entered[place] = tokens[i]
	}
	return entered, nil
}

// unlabel drops the entries of a session that a script has returned as pairs of token and place. If it cannot, a reader
// drops them.
func (s *Store) unlabel(ctx context.Context, k checkpoint.Key, pairs []string) {
	var gone []redisstore.Entry
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) == 2 {
			gone = append(gone, redisstore.Entry{Session: pair[1] + "\x00" + k.Session, Token: pair[0]})
		}
	}
	_ = s.dropAt(ctx, s.labelsKey(k.Orchestrator), gone)
}

// A labeled entry is an entry of the index of labels.
type labeled struct{ place, session, token string }

// entry returns the entry for drop.
func (e labeled) entry() redisstore.Entry {
	return redisstore.Entry{Session: e.place + "\x00" + e.session, Token: e.token}
}

// listLabeled returns the entries of a page, and the bound behind them, which is "" at the end. It leaves out what no
// store wrote.
func (s *Store) listLabeled(
	ctx context.Context, orchestrator, from, to string, size int,
) (page []labeled, next string, err error) {
	found, err := s.redis.List(ctx, s.labelsKey(orchestrator), from, to, size)
	for _, e := range found {
		if rest := strings.SplitN(e.Token, "\x00", 3); len(rest) == 3 {
			page = append(page, labeled{e.Session + "\x00" + rest[0], rest[1], rest[2]})
		}
		next = "(" + e.Session + "\x00" + e.Token
	}
	if len(found) < size {
		next = ""
	}
	return page, next, err
}

// byLabel is sessions for a query by a label. What is due is in the order of its time, so it is all read, and sorted.
func (s *Store) byLabel(ctx context.Context, q checkpoint.SessionQuery, yield func(string, error) bool) error {
	from, to := labelBounds(q)
	var due []finding
	left, tour := q.Limit, s.redis.Tour()
	for size := firstEntries; from != ""; size = min(4*size, maxEntries) {
		page, next, err := s.listLabeled(ctx, q.Orchestrator, from, to, size)
		if err != nil {
			return err
		}
		page = slices.DeleteFunc(page, func(e labeled) bool { return !within(q, e.session) })
		found, err := s.siftLabeled(ctx, tour, page, q)
		if due = append(due, found...); q.By.IsZero() {
			for _, f := range found {
				if left--; !yield(f.session, f.err) || left == 0 {
					return nil
				}
			}
		}
		if err != nil {
			return err
		}
		from = next
	}
	if q.By.IsZero() {
		return nil
	}
	slices.SortFunc(due, func(a, b finding) int { return strings.Compare(a.session, b.session) })
	due = slices.CompactFunc(due, func(a, b finding) bool { return a.session == b.session })
	for _, f := range due {
		if left--; !yield(f.session, f.err) || left == 0 {
			return nil
		}
	}
	return nil
}

// labelBounds returns the bounds of the entries for q.
func labelBounds(q checkpoint.SessionQuery) (from, to string) {
	if by := q.DueBy(); !by.IsZero() {
		return "[" + q.Label + "\x00\x01", "(" + q.Label + "\x00" + stamp(by) + "\x01"
	}
	at := q.Label + "\x00\x00"
	switch from, to = redisstore.Within(at + q.Prefix); {
	case q.Session != "":
		from, to = redisstore.Only(at + q.Session)
	case q.After >= q.Prefix:
		from = redisstore.Past(at + q.After)
	}
	return from, to
}

// within reports whether q may select a session of that name.
func within(q checkpoint.SessionQuery, session string) bool {
	if q.Session != "" {
		return session == q.Session
	}
	return strings.HasPrefix(session, q.Prefix) && session > q.After
}

// siftLabeled is sift for entries of labels.
func (s *Store) siftLabeled(
	ctx context.Context, tour *redisstore.Tour, page []labeled, q checkpoint.SessionQuery,
) ([]finding, error) {
	found, stale, err := s.lookLabeled(ctx, tour, q.Orchestrator, page, q)
	if err != nil {
		return found, err
	}
	if err := s.dropAt(ctx, s.labelsKey(q.Orchestrator), stale); !errors.Is(err, checkpoint.ErrRefused) {
		return found, err
	}
	return found, nil // the entries stay for another reader
}

// lookLabeled is siftLabeled, but returns the stale entries.
func (s *Store) lookLabeled(
	ctx context.Context, tour *redisstore.Tour, orchestrator string, page []labeled, q checkpoint.SessionQuery,
) (found []finding, stale []redisstore.Entry, err error) {
	keys, calls := make([]checkpoint.Key, len(page)), make([]redisstore.Call, len(page))
	for i, e := range page {
		keys[i] = checkpoint.Key{Orchestrator: orchestrator, Session: e.session}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(keys[i]), Args: []any{
			e.place, e.token, redisstore.Flag(q.Owing), redisstore.Flag(q.Due), heldBack(q),
		}}
	}
	found, old, err := s.lookAt(ctx, tour, labeledScript, keys, calls)
	for _, i := range old {
		stale = append(stale, page[i].entry())
	}
	return found, stale, err
}

// sweepLabels drops the stale ones of limit entries. If limit is 0, it looks at all entries.
func (s *Store) sweepLabels(ctx context.Context, orchestrator, from string, limit int) error {
	if limit <= 0 {
		from = redisstore.First
	}
	tour := s.redis.Tour()
	for seen := 0; limit <= 0 || seen < limit; {
		size := maxEntries
		if limit > 0 {
			size = min(size, limit-seen)
		}
		page, next, err := s.listLabeled(ctx, orchestrator, from, redisstore.Last, size)
		if err != nil {
			return err
		}
		_, stale, err := s.lookLabeled(ctx, tour, orchestrator, page, checkpoint.SessionQuery{})
		if err == nil {
			err = s.dropAt(ctx, s.labelsKey(orchestrator), stale)
		}
		if err != nil {
			return err
		}
		if next == "" {
			s.labels.reached(orchestrator, redisstore.First)
			return nil
		}
		seen, from = seen+size, next
		s.labels.reached(orchestrator, from)
	}
	return nil
}
