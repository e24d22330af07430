package redischeckpoint

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Head is one script, which only reads.
func (s *Store) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := s.head(ctx, k)
	if err != nil {
		return h, fmt.Errorf("redischeckpoint: head of %q: %w", k.Session, err)
	}
	return h, nil
}

func (s *Store) head(ctx context.Context, k checkpoint.Key) (h checkpoint.Head, err error) {
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return h, err
	}
	r, err := s.redis.Run(ctx, headScript, s.sessionKeys(k))
	switch {
	case err != nil:
		return h, damaged(k, err)
	case len(r.Values) == 0:
		return h, checkpoint.ErrNotFound
	}
	return standing(k, r.Values)
}

// standing reads the values of the head script.
func standing(k checkpoint.Key, values []string) (h checkpoint.Head, err error) {
	const numbers = 8
	if len(values) != numbers+1 {
		return h, checkpoint.Damaged(k, fmt.Errorf("reply of %d values", len(values)))
	}
	var n [numbers]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(values[i], 10, 64); err != nil {
			return h, checkpoint.Damaged(k, fmt.Errorf("head: %w", err))
		}
	}
	c := checkpoint.Claimed{
		Born: n[1], Summarized: int(n[4]), Delivered: int(n[5]), Failed: int(n[6]),
	}
	c.Key, c.Fence.Epoch = k, n[0]
	h, err = checkpoint.HeadOf(c, int(n[2]), int(n[3]))
	if left := n[7]; err == nil && left > 0 {
		h.Owner, h.LeaseLeft = values[numbers], time.Duration(left)*time.Microsecond
	}
	return h, err
}
