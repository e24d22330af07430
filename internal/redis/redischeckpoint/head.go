package redischeckpoint

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Head is one script, which only reads.
func (s *Store) Head(ctx context.Context, k checkpoint.Key) (h checkpoint.Head, err error) {
	defer failed(&err, "head of", k)
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return h, err
	}
	r, err := s.redis.Run(ctx, headScript, s.sessionKeys(k))
	switch {
	case err != nil:
		return h, err
	case len(r.Values) == 0:
		return h, checkpoint.ErrNotFound
	}
	var n [8]int64
	if err := r.Numbers(n[:]); err != nil {
		return h, checkpoint.Damaged(k, err)
	}
	c := checkpoint.Claimed{
		Born: n[1], Summarized: int(n[4]), Delivered: int(n[5]), Failed: int(n[6]),
	}
	c.Key, c.Fence.Epoch = k, n[0]
	h, err = checkpoint.HeadOf(c, int(n[2]), int(n[3]))
	if left := n[7]; err == nil && left > 0 {
		h.Owner, h.LeaseLeft = r.Value(len(n)), time.Duration(left)*time.Microsecond
	}
	return h, err
}
