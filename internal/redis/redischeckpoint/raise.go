package redischeckpoint

import (
	"context"
	"fmt"
	"time"
)

// Raise implements lock.Raiser. It returns how many sessions had an owner. It looks at all keys of the servers, a page
// at a time. After an error, and after slots of a cluster have moved meanwhile, call it again.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	ended, err = s.redis.RunEach(ctx, raiseScript, s.prefix+"{", "}:session", s.idle, s.unsettled)
	if err != nil {
		return ended, fmt.Errorf("redischeckpoint: raise: %w", err)
	}
	return ended, nil
}
