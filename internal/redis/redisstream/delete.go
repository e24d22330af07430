package redisstream

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/stream"
)

// Delete implements [stream.Store].
func (s *Store) Delete(ctx context.Context, k stream.Key) error {
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return err
	}
	if _, err := s.run(ctx, "delete", k, deleteScript); err != nil {
		return err
	}
	s.hub.Tell(s.key(k), 0, true)
	return nil
}
