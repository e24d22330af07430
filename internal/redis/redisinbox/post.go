package redisinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// mostEntries is how often a Post enters the index at most. A second time is needed after a Remove. If Post needs many,
// others remove all the time, or the clocks are wrong.
const mostEntries = 32

var errStale = errors.New("no index entry is fresh enough: do the clocks of the servers differ by minutes?")

// Post enters the session in the index and then posts the item, in one script each.
func (s *Store) Post(ctx context.Context, it inbox.Item) (first bool, err error) {
	err = redisstore.Checked(ctx, it.Validate())
	if err == nil {
		first, err = s.post(ctx, it)
	}
	if err != nil {
		return false, fmt.Errorf("redisinbox: post %q: %w", it.Session, err)
	}
	return first, nil
}

func (s *Store) post(ctx context.Context, it inbox.Item) (first bool, err error) {
	data := "null"
	if it.Data != nil {
		data = string(it.Data)
	}
	call, stale, above := rand.Text(), redisstore.Barred{At: "0"}, "0"
	for range mostEntries {
		token, seen, err := s.redis.Enter(ctx, s.indexKey(it.Orchestrator, it.Kind), it.Session, stale, above)
		if err != nil {
			return false, indexError(err)
		}
		reply, err := s.redis.Run(ctx, postScript, s.boxKeys(it.Key, it.Kind),
			call, token, seen, it.ID, it.By, it.Shown, data)
		switch {
		case err != nil:
			return false, judge(it, err)
		case reply.Status != "INDEX":
			return reply.Value(0) == it.By, nil
		}
		stale = redisstore.Barred{Session: it.Session, Token: token, At: reply.Value(0)}
		above = reply.Value(1)
	}
	return false, errStale
}
