package redischeckpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// An entry of an index may be stale, but none is missing. Why that holds is in docs/decisions/0003-redis-layout.md.
type entry struct {
	session string
	token   string
}

// enter writes an entry with a token that was never used, and returns it.
func (s *Store) enter(ctx context.Context, x index, session string) (token string, err error) {
	token = rand.Text()
	for replaced := ""; ; {
		r, err := s.run(ctx, enterScript, s.indexKeys(x), session, replaced, token)
		if err != nil {
			return "", err
		}
		if r.status == "OK" {
			return token, nil
		}
		replaced = r.values[0]
	}
}

// drop removes the entries that still have the token they were seen with.
func (s *Store) drop(ctx context.Context, x index, stale []entry) error {
	if len(stale) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(stale))
	for _, e := range stale {
		args = append(args, e.session, e.token)
	}
	_, err := s.run(ctx, dropScript, s.indexKeys(x), args...)
	return err
}

// known returns the tokens of the session's entries.
func (s *Store) known(ctx context.Context, k checkpoint.Key) (map[index]string, error) {
	tokens := make(map[index]string)
	for _, x := range []index{{k.Orchestrator, false}, {k.Orchestrator, true}} {
		page, err := s.list(ctx, x, "["+k.Session, "["+k.Session, 1)
		if err != nil {
			return nil, err
		}
		if len(page) > 0 {
			tokens[x] = page[0].token
		}
	}
	return tokens, nil
}

// list returns entries in byte order, between bounds as Redis writes them.
func (s *Store) list(ctx context.Context, x index, from, to string, limit int) ([]entry, error) {
	r, err := s.run(ctx, listScript, s.indexKeys(x), from, to, limit)
	if err != nil {
		return nil, err
	}
	page := make([]entry, len(r.values)/2)
	for i := range page {
		page[i] = entry{r.values[2*i], r.values[2*i+1]}
	}
	return page, nil
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
	if err := checked(ctx, q.Validate()); err != nil {
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
		page, err := s.list(ctx, x, from, to, size)
		if err != nil {
			return err
		}
		live, err := s.sift(ctx, x, page)
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
		from = "(" + page[len(page)-1].session
	}
}

// sift returns the sessions of a page whose heads confirm it, and drops the entries that are stale.
func (s *Store) sift(ctx context.Context, x index, page []entry) (live []string, err error) {
	calls := make([]call, len(page))
	for i, e := range page {
		head := s.sessionKeys(checkpoint.Key{Orchestrator: x.orchestrator, Session: e.session})[:1]
		calls[i] = call{head, []any{flag(x.owing), e.token}}
	}
	var stale []entry
	var errs []error
	s.runAll(ctx, lookScript, calls, func(i int, r reply, err error) {
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", page[i].session, err))
		case r.status == "LIST":
			live = append(live, page[i].session)
		case r.status == "DROP":
			stale = append(stale, page[i])
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return live, s.drop(ctx, x, stale)
}
