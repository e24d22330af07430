package redisinbox

import (
	"context"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Item implements [inbox.Store].
func (s *Store) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (it inbox.Item, err error) {
	defer redisstore.Wrap(&err, "item of", k.Session)
	it = inbox.Item{Key: k, Kind: kind, ID: id}
	if err := redisstore.Checked(ctx, inbox.ValidateItem(k, kind, id)); err != nil {
		return it, err
	}
	reply, err := s.redis.Run(ctx, itemScript, s.boxKeys(it.Key, it.Kind), it.ID)
	switch {
	case err != nil:
		return it, judge(it, err)
	case reply.Status == "NONE":
		return inbox.Item{}, inbox.ErrNotFound
	}
	f := decode(it.Key, it.Kind, reply.Value(0))
	return f.Item, f.damage
}
