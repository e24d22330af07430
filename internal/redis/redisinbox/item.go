package redisinbox

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Item implements [inbox.Store].
func (s *Store) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	it := inbox.Item{Key: k, Kind: kind, ID: id}
	err := redisstore.Checked(ctx, inbox.ValidateItem(k, kind, id))
	if err == nil {
		it, err = s.item(ctx, it)
	}
	if err != nil {
		err = fmt.Errorf("redisinbox: item of %q: %w", k.Session, err)
	}
	return it, err
}

func (s *Store) item(ctx context.Context, it inbox.Item) (inbox.Item, error) {
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
