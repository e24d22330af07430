package redissnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Delete forgets the run except its id and its fence, in one script. A later call, or the next listing, removes the
// run's entry from the index.
func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) (err error) {
	defer redisstore.Wrap(&err, "delete the run of", k.Session)
	if err := redisstore.Checked(ctx, snapshot.ValidateDelete(k, id, f)); err != nil {
		return err
	}
	reply, err := s.redis.Run(ctx, deleteScript, s.runKeys(k), id, f.Epoch, f.Nonce, s.remember)
	if err != nil {
		_, err = judge(k, err)
		return err
	}
	if len(reply.Values) == 0 {
		return nil
	}
	gone := redisstore.Barred{Session: k.Session, Token: reply.Value(0), At: reply.Value(1)}
	if full := s.gone.add(k.Orchestrator, gone); full {
		// The run is deleted. If drop fails, readers remove the entries.
		_ = s.redis.Drop(ctx, s.indexKey(k.Orchestrator), s.gone.take(k.Orchestrator)...)
	}
	return nil
}
