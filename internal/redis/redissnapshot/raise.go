package redissnapshot

import (
	"context"
	"fmt"
	"time"
)

// Raise implements lock.Raiser. It returns of how many sessions a fence was known. It looks at all keys of the servers,
// a page at a time. After an error, and after slots of a cluster have moved meanwhile, call it again.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	ended, err = s.redis.RunEach(ctx, raiseScript, s.prefix+"{", "}:run")
	if err != nil {
		return ended, fmt.Errorf("redissnapshot: raise: %w", err)
	}
	return ended, nil
}
