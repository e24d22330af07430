package redischeckpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore"
)

// enter writes an entry with a token that was never used, and returns the token. docs/decisions/0003-redis-layout.md
// says why no entry is missing.
func (s *Store) enter(ctx context.Context, x index, session string) (token string, err error) {
	for replaced := ""; ; {
		// The token is new each time: a repeat must not bring back a token that was replaced.
		token = rand.Text()
		r, err := s.redis.Run(ctx, enterScript, []string{s.indexKey(x)}, session, replaced, token)
		if err != nil {
			return "", indexError(err)
		}
		if r.Status == "OK" {
			return token, nil
		}
		replaced = r.Values[0]
	}
}

// drop removes the entries that still have the token with which they were read.
func (s *Store) drop(ctx context.Context, x index, stale []redisstore.Entry) error {
	if len(stale) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(stale))
	for _, e := range stale {
		args = append(args, e.Session, e.Token)
	}
	_, err := s.redis.Run(ctx, dropScript, []string{s.indexKey(x)}, args...)
	return indexError(err)
}

// indexError turns the Fault of an index into the ErrDamaged of the store, not of a session.
func indexError(err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return fmt.Errorf("%w: index: %s", checkpoint.ErrDamaged, fault.What)
	}
	return err
}

// known returns the tokens of the session's entries.
func (s *Store) known(ctx context.Context, k checkpoint.Key) (map[index]string, error) {
	tokens := make(map[index]string)
	for _, x := range []index{{k.Orchestrator, false}, {k.Orchestrator, true}} {
		page, err := s.redis.List(ctx, s.indexKey(x), redisstore.At(k.Session), redisstore.Past(k.Session), 1)
		if err != nil {
			return nil, indexError(err)
		}
		if len(page) > 0 {
			tokens[x] = page[0].Token
		}
	}
	return tokens, nil
}

// The first page is small because most listings end there.
const (
	firstEntries = 50
	maxEntries   = 500
)

// Sessions reads the index page by page and yields the sessions that the heads confirm. It drops stale entries.
func (s *Store) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.sessions(ctx, q, yield); err != nil {
			yield("", fmt.Errorf("redischeckpoint: sessions of %q: %w", q.Orchestrator, err))
		}
	}
}

// sessions returns an error for its caller to yield. If yield wants no more, sessions returns nil.
func (s *Store) sessions(ctx context.Context, q checkpoint.SessionQuery, yield func(string, error) bool) error {
	if err := redisstore.Checked(ctx, q.Validate()); err != nil {
		return err
	}
	x := index{q.Orchestrator, q.Owing}
	from, to := redisstore.Within(q.Prefix)
	if q.After >= q.Prefix {
		from = redisstore.Past(q.After)
	}
	left := q.Limit
	for size := firstEntries; ; size = min(4*size, maxEntries) {
		page, err := s.redis.List(ctx, s.indexKey(x), from, to, size)
		if err != nil {
			return indexError(err)
		}
		found, err := s.sift(ctx, x, page, q.Due)
		for _, f := range found {
			if left--; !yield(f.session, f.damage) || left == 0 {
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

// A finding is a session. damage is nil unless the session is damaged.
type finding struct {
	session string
	damage  error
}

// sift returns the sessions of a page whose heads confirm the entry or cannot be read. With due, it returns only
// sessions that are due. It drops stale entries. With an error it returns the sessions that it could look at.
func (s *Store) sift(ctx context.Context, x index, page []redisstore.Entry, due bool) (found []finding, err error) {
	found, stale, err := s.look(ctx, x, page, due)
	if err != nil {
		return found, err
	}
	if err := s.drop(ctx, x, stale); !errors.Is(err, checkpoint.ErrRefused) {
		return found, err
	}
	return found, nil // the entries stay for another reader
}

// look is sift, but returns the stale entries.
func (s *Store) look(
	ctx context.Context, x index, page []redisstore.Entry, due bool,
) (found []finding, stale []redisstore.Entry, err error) {
	calls := make([]redisstore.Call, len(page))
	for i, e := range page {
		keys := s.sessionKeys(checkpoint.Key{Orchestrator: x.orchestrator, Session: e.Session})
		calls[i] = redisstore.Call{Keys: keys, Args: []any{redisstore.Flag(x.owing), e.Token, redisstore.Flag(due)}}
	}
	var errs []error
	s.redis.RunAll(ctx, lookScript, calls, func(i int, r redisstore.Reply, err error) {
		f := finding{
			page[i].Session, damaged(checkpoint.Key{Orchestrator: x.orchestrator, Session: page[i].Session}, err),
		}
		switch {
		case errors.Is(f.damage, checkpoint.ErrDamaged), r.Status == "LIST" && err == nil:
			found = append(found, f)
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", page[i].Session, err))
		case r.Status == "DROP":
			stale = append(stale, page[i])
		}
	})
	return found, stale, errors.Join(errs...)
}
