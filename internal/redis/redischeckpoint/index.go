package redischeckpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// An index lists sessions of one orchestrator: all with a settled turn, or all that owe a reply. An entry may be stale.
type index struct {
	orchestrator string
	// owing selects the index of the sessions that owe a reply.
	owing bool
}

func (s *Store) indexKey(x index) string {
	if x.owing {
		return s.redis.Key(":owing", x.orchestrator)
	}
	return s.redis.Key(":sessions", x.orchestrator)
}

// enter writes an entry with a token that was never used, and returns the token. docs/decisions/0003-redis-layout.md
// says why no entry is missing.
func (s *Store) enter(ctx context.Context, x index, session string) (token string, err error) {
	for replaced := ""; ; {
		// The token is new each time: a repeat must not bring back a token that was replaced.
		token = rand.Text()
		r, err := s.redis.OnIndex(ctx, enterScript, s.indexKey(x), session, replaced, token)
		if err != nil {
			return "", err
		}
		if r.Status == "OK" {
			return token, nil
		}
		replaced = r.Value(0)
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
	_, err := s.redis.OnIndex(ctx, dropScript, s.indexKey(x), args...)
	return err
}

// known returns the tokens of the session's entries.
func (s *Store) known(ctx context.Context, k checkpoint.Key) (map[index]string, error) {
	tokens := make(map[index]string)
	for _, x := range []index{{k.Orchestrator, false}, {k.Orchestrator, true}} {
		page, err := s.redis.List(ctx, s.indexKey(x), redisstore.At(k.Session), redisstore.Past(k.Session), 1)
		if err != nil {
			return nil, err
		}
		if len(page) > 0 {
			tokens[x] = page[0].Token
		}
	}
	return tokens, nil
}

// look is sift, but returns the stale entries.
func (s *Store) look(
	ctx context.Context, tour *redisstore.Tour, x index, page []redisstore.Entry, q checkpoint.SessionQuery,
) (found []finding, stale []redisstore.Entry, err error) {
	heldBack := q.HeldBack + time.Microsecond - 1 // the shortest time is not 0, which selects all
	calls := make([]redisstore.Call, len(page))
	for i, e := range page {
		keys := s.sessionKeys(checkpoint.Key{Orchestrator: x.orchestrator, Session: e.Session})
		calls[i] = redisstore.Call{Keys: keys, Args: []any{
			redisstore.Flag(x.owing), e.Token, redisstore.Flag(q.Due), heldBack.Microseconds(),
		}}
	}
	var errs []error
	tour.RunAll(ctx, lookScript, calls, func(i int, r redisstore.Reply, err error) {
		k := checkpoint.Key{Orchestrator: x.orchestrator, Session: page[i].Session}
		f := finding{k.Session, redisstore.AwayFrom(ctx, k, "", damaged(k, err))}
		switch {
		case redisstore.Spared(f.err), r.Status == "LIST" && err == nil:
			found = append(found, f)
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", k.Session, err))
		case r.Status == "DROP":
			stale = append(stale, page[i])
		}
	})
	return found, stale, errors.Join(errs...)
}
