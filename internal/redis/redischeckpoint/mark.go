package redischeckpoint

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Mark raises counters, counts a failed delivery, or releases, in one script.
func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) (err error) {
	defer failed(&err, "mark", l.Key)
	if err = redisstore.Checked(ctx, l.Validate(), m.Validate()); err == nil {
		_, err = s.redis.Run(ctx, markScript, s.sessionKeys(l.Key), l.Fence.Epoch, l.Fence.Nonce,
			m.Summarized, m.Delivered, redisstore.Flag(m.Release), s.idle, s.unsettled,
			ceil(m.Retry, time.Microsecond), s.attempt(m))
	}
	return err
}

// attempt numbers the marks with a Retry, so that a copy of a mark is not counted. Another Store of this process may
// have marked before with the same lease: because of the clock, the numbers grow then too.
func (s *Store) attempt(m checkpoint.Marks) int64 {
	if m.Retry == 0 {
		return 0
	}
	for {
		last := s.failed.Load()
		next := max(last+1, time.Now().UnixMicro())
		if s.failed.CompareAndSwap(last, next) {
			return next
		}
	}
}
