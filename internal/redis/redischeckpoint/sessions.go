package redischeckpoint

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// The first page is small because most listings end there.
const (
	firstEntries = 50
	maxEntries   = 500
)

// Sessions reads the index page by page and yields the sessions that the heads confirm. It drops stale entries.
func (s *Store) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.sessions(ctx, q, yield); err != nil {
			yield("", fmt.Errorf("redis: sessions of %q: %w", q.Orchestrator, err))
		}
	}
}

// sessions returns an error for its caller to yield. If yield wants no more, sessions returns nil.
func (s *Store) sessions(ctx context.Context, q checkpoint.SessionQuery, yield func(string, error) bool) error {
	if err := redisstore.Checked(ctx, q.Validate()); err != nil {
		return err
	}
	if q.Label != "" {
		return s.byLabel(ctx, q, yield)
	}
	x := index{q.Orchestrator, q.Owing}
	from, to := redisstore.Within(q.Prefix)
	switch {
	case q.Session != "":
		from, to = redisstore.Only(q.Session)
	case q.After >= q.Prefix:
		from = redisstore.Past(q.After)
	}
	left, tour := q.Limit, s.redis.Tour()
	for size := firstEntries; ; size = min(4*size, maxEntries) {
		page, err := s.redis.List(ctx, s.indexKey(x), from, to, size)
		if err != nil {
			return err
		}
		found, err := s.sift(ctx, tour, x, page, q)
		for _, f := range found {
			if left--; !yield(f.session, f.err) || left == 0 {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if len(page) < size {
			return nil
		}
		from = redisstore.Past(page[len(page)-1].Session)
	}
}

// A finding is a session. err is nil unless the session is damaged, or its node is away.
type finding struct {
	session string
	err     error
}

// sift returns the sessions of a page that q selects and whose heads confirm the entry or cannot be read. It drops
// stale entries. With an error it returns the sessions that it could look at.
func (s *Store) sift(
	ctx context.Context, tour *redisstore.Tour, x index, page []redisstore.Entry, q checkpoint.SessionQuery,
) (found []finding, err error) {
	found, stale, err := s.look(ctx, tour, x, page, q)
	if err != nil {
		return found, err
	}
	if err := s.drop(ctx, x, stale); !errors.Is(err, checkpoint.ErrRefused) {
		return found, err
	}
	return found, nil // the entries stay for another reader
}
