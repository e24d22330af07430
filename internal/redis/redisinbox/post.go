package redisinbox

import (
	"context"
	"crypto/rand"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// mostEntries is how often a Post enters the index at most. A second time is needed after a Remove. If Post needs many,
// others remove all the time, or the clocks are wrong.
const mostEntries = 32

// Post enters the session in the index and then posts the item, in one script each.
func (s *Store) Post(ctx context.Context, it inbox.Item) (first bool, err error) {
	defer redisstore.Wrap(&err, "post to", it.Session)
	if err := redisstore.Checked(ctx, it.Validate()); err != nil {
		return false, err
	}
	data := "null"
	if it.Data != nil {
		data = string(it.Data)
	}
	call := rand.Text()
	reply, err := s.redis.Entered(ctx, s.indexKey(it.Orchestrator, it.Kind), it.Session, mostEntries, nil,
		func(token, seen string) (redisstore.Reply, error) {
			return s.redis.Run(ctx, postScript, s.boxKeys(it.Key, it.Kind),
				call, token, seen, it.ID, it.By, it.Shown, data)
		})
	return err == nil && reply.Value(0) == it.By, judge(it, err)
}
