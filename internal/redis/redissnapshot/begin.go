package redissnapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Begin enters the session in the index and then writes the run, in one script each.
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	err := redisstore.Checked(ctx, r.Validate())
	var found *snapshot.Run
	if err == nil {
		found, err = s.begin(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("redissnapshot: begin %q: %w", r.Session, err)
	}
	return found, nil
}

func (s *Store) begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	stale, above := redisstore.Barred{At: "0"}, "0"
	for range mostEntries {
		entry, seen, err := s.enter(ctx, r.Key, stale, above)
		if err != nil {
			return nil, err
		}
		reply, err := s.redis.Run(ctx, beginScript, s.runKeys(r.Key),
			append([]any{rand.Text(), entry, seen}, encode(r)...)...)
		switch {
		case err != nil:
			_, err = judge(r.Key, err)
			return nil, err
		case reply.Status == "FOUND":
			found, err := decode(r.Key, reply.Values)
			if err != nil {
				return nil, err
			}
			return &found, nil
		case reply.Status != "INDEX":
			return nil, nil
		}
		stale, above = redisstore.Barred{Session: r.Session, Token: entry, At: reply.Value(0)}, reply.Value(1)
	}
	return nil, errStale
}

var errStale = errors.New("no index entry is fresh enough: do the clocks of the servers differ by minutes?")

// mostEntries is how often a Begin enters the index at most. A second time is rare. If Begin needs more, the clocks are
// wrong.
const mostEntries = 8
