package redisstream

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/stream"
)

// Delete implements [stream.Store].
func (s *Store) Delete(ctx context.Context, k stream.Key) (err error) {
	defer redisstore.Wrap(&err, "delete the stream of", k.Session)
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return err
	}
	if _, err := s.run(ctx, k, deleteScript); err != nil {
		return err
	}
	s.hub.Tell(s.key(k), 0, true)
	return nil
}
