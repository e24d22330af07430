package redisinbox

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Remove asks the server for its time and then removes the items, in one script each. If there is nothing to remove,
// the first script says so. If kind is "", Remove removes one kind after the other. If no item is left, it also drops
// the session from the index.
func (s *Store) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) (err error) {
	defer redisstore.Wrap(&err, "remove from", k.Session)
	err = redisstore.Checked(ctx, inbox.ValidateRemove(k, kind, ids))
	each := inbox.Kinds() // each has a key of its own
	if kind != "" {
		each = []inbox.Kind{kind}
	}
	for _, kind := range each {
		if err == nil {
			err = s.remove(ctx, k, kind, ids)
		}
	}
	return err
}

// mostBegins is how often a Remove begins at most. A second time is needed only if the first request took 20 minutes.
const mostBegins = 8

var errSlow = errors.New("the server answers only after 20 minutes")

func (s *Store) remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids []string) error {
	call, began := rand.Text(), ""
	for range mostBegins {
		args := []any{call, began}
		for _, id := range ids {
			args = append(args, id)
		}
		reply, err := s.redis.Run(ctx, removeScript, s.boxKeys(k, kind), args...)
		switch {
		case err != nil:
			return judge(inbox.Item{Key: k, Kind: kind}, err)
		case reply.Status == "BEGIN":
			began = reply.Value(0)
			continue
		case len(reply.Values) > 1:
			gone := redisstore.Barred{Session: k.Session, Token: reply.Value(0), At: reply.Value(1)}
			_ = s.redis.Drop(ctx, s.indexKey(k.Orchestrator, kind), gone) // otherwise a reader drops the entry
		}
		return nil
	}
	return errSlow
}
