package redischeckpoint

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Delete removes the session's key in one script, and then its entries in the indexes.
func (s *Store) Delete(ctx context.Context, l checkpoint.Lease) (err error) {
	defer failed(&err, "delete", l.Key)
	if err := redisstore.Checked(ctx, l.Validate()); err != nil {
		return err
	}
	// The tokens are read before the head is gone: see docs/decisions/0003-redis-layout.md.
	known, err := s.known(ctx, l.Key)
	if err != nil {
		return err
	}
	gone, err := s.redis.Run(ctx, deleteScript, s.sessionKeys(l.Key), l.Fence.Epoch, l.Fence.Nonce)
	if err != nil {
		return err // also ErrFenced: then the entries are of another life of the session
	}
	s.unlabel(ctx, l.Key, gone.Values)
	for index, token := range known {
		err := s.drop(ctx, index, []redisstore.Entry{{Session: l.Session, Token: token}})
		// The session is gone, so the next reader of the entry drops it.
		if err != nil && !errors.Is(err, checkpoint.ErrRefused) {
			return err
		}
	}
	return nil
}
