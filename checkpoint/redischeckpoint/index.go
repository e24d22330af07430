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

// enter writes an entry with a token that was never used, and returns it. Why no entry is missing is in
// docs/decisions/0003-redis-layout.md.
func (s *Store) enter(ctx context.Context, x index, session string) (token string, err error) {
	token = rand.Text()
	for replaced := ""; ; {
		r, err := s.redis.Run(ctx, enterScript, s.indexKeys(x), session, replaced, token)
		if err != nil {
			return "", err
		}
		if r.Status == "OK" {
			return token, nil
		}
		replaced = r.Values[0]
	}
}

// drop removes the entries that still have the token they were seen with.
func (s *Store) drop(ctx context.Context, x index, stale []redisstore.Entry) error {
	if len(stale) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(stale))
	for _, e := range stale {
		args = append(args, e.Session, e.Token)
	}
	_, err := s.redis.Run(ctx, dropScript, s.indexKeys(x), args...)
	return err
}

// known returns the tokens of the session's entries.
func (s *Store) known(ctx context.Context, k checkpoint.Key) (map[index]string, error) {
	tokens := make(map[index]string)
	for _, x := range []index{{k.Orchestrator, false}, {k.Orchestrator, true}} {
		page, err := s.redis.List(ctx, s.indexKeys(x), "["+k.Session, "["+k.Session, 1)
		if err != nil {
			return nil, err
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

// Sessions reads the index page by page and yields what the heads confirm. Entries that are stale are dropped.
func (s *Store) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.sessions(ctx, q, yield); err != nil {
			yield("", fmt.Errorf("redischeckpoint: sessions of %q: %w", q.Orchestrator, err))
		}
	}
}

// sessions returns an error for its caller to yield, and nil once yield has had enough.
func (s *Store) sessions(ctx context.Context, q checkpoint.SessionQuery, yield func(string, error) bool) error {
	if err := redisstore.Checked(ctx, q.Validate()); err != nil {
		return err
	}
	x := index{q.Orchestrator, q.Owing}
	from := "[" + q.Prefix
	if q.After >= q.Prefix {
		from = "(" + q.After
	}
	to := "(" + q.Prefix + "\xff" // above all UTF-8
	left := q.Limit
	for size := firstEntries; ; size = min(4*size, maxEntries) {
		page, err := s.redis.List(ctx, s.indexKeys(x), from, to, size)
		if err != nil {
			return err
		}
		live, err := s.sift(ctx, x, page, q.Due)
		if err != nil {
			return err
		}
		for _, session := range live {
			if left--; !yield(session, nil) || left == 0 {
				return nil
			}
		}
		if len(page) < size {
			return nil
		}
		from = "(" + page[len(page)-1].Session
	}
}

// sift returns the sessions of a page whose heads confirm it, with due only those that are due, and drops the entries
// that are stale.
func (s *Store) sift(ctx context.Context, x index, page []redisstore.Entry, due bool) (live []string, err error) {
	calls := make([]redisstore.Call, len(page))
	for i, e := range page {
		head := s.sessionKeys(checkpoint.Key{Orchestrator: x.orchestrator, Session: e.Session})[:1]
		calls[i] = redisstore.Call{Keys: head, Args: []any{redisstore.Flag(x.owing), e.Token, redisstore.Flag(due)}}
	}
	var stale []redisstore.Entry
	var errs []error
	s.redis.RunAll(ctx, lookScript, calls, func(i int, r redisstore.Reply, err error) {
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", page[i].Session, err))
		case r.Status == "LIST":
			live = append(live, page[i].Session)
		case r.Status == "DROP":
			stale = append(stale, page[i])
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return live, s.drop(ctx, x, stale)
}
