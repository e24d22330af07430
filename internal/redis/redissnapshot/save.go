package redissnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Save replaces the run in one script. A part is a field of its own, so that an added part costs no more than its own
// size.
func (s *Store) Save(ctx context.Context, r snapshot.Run) (err error) {
	defer redisstore.Wrap(&err, "save the run of", r.Session)
	if err = redisstore.Checked(ctx, r.Validate()); err == nil {
		_, err = s.redis.Run(ctx, saveScript, s.runKeys(r.Key), encode(r)...)
		_, err = judge(r.Key, err)
	}
	return err
}
