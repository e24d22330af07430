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
	return s.dropAt(ctx, s.indexKey(x), stale)
}

func (s *Store) dropAt(ctx context.Context, index string, stale []redisstore.Entry) error {
	if len(stale) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(stale))
	for _, e := range stale {
		args = append(args, e.Session, e.Token)
	}
	_, err := s.redis.OnIndex(ctx, dropScript, index, args...)
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
	keys, calls := make([]checkpoint.Key, len(page)), make([]redisstore.Call, len(page))
	for i, e := range page {
		keys[i] = checkpoint.Key{Orchestrator: x.orchestrator, Session: e.Session}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(keys[i]), Args: []any{
			redisstore.Flag(x.owing), e.Token, redisstore.Flag(q.Due), heldBack(q),
		}}
	}
	found, old, err := s.lookAt(ctx, tour, lookScript, keys, calls)
	for _, i := range old {
		stale = append(stale, page[i])
	}
	return found, stale, err
}

// heldBack returns q.HeldBack in microseconds. It rounds up: the shortest time is not 0, which selects all.
func heldBack(q checkpoint.SessionQuery) int64 {
	return (q.HeldBack + time.Microsecond - 1).Microseconds()
}

// lookAt runs a script on the sessions of entries. It returns the sessions to list, and the numbers of the stale
// entries.
func (s *Store) lookAt(
	ctx context.Context, tour *redisstore.Tour, script *redisstore.Lua, keys []checkpoint.Key, calls []redisstore.Call,
) (found []finding, stale []int, err error) {
	var errs []error
	tour.RunAll(ctx, script, calls, func(i int, r redisstore.Reply, err error) {
		k := keys[i]
		f := finding{k.Session, redisstore.AwayFrom(ctx, k, "", damaged(k, err))}
		switch {
		case redisstore.Spared(f.err), r.Status == "LIST" && err == nil:
			found = append(found, f)
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", k.Session, err))
		case r.Status == "DROP":
			stale = append(stale, i)
		}
	})
	return found, stale, errors.Join(errs...)
}
