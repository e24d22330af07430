package pgcheckpoint

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// forEver is longer than any session is idle.
const forEver = 200 * 365 * 24 * time.Hour

// Sweep retires idle sessions. It passes over sessions that are locked. With a limit it looks at a part of the
// sessions, and goes on there the next time. Of several processes only one sweeps. So the cost does not grow with the
// table.
func (s *Store) Sweep(ctx context.Context, limit int) (retired int, err error) {
	ttl := s.ttl
	if ttl <= 0 {
		ttl = forEver
	}
	retired, err = s.sweeper.Sweep(ctx, ttl, limit)
	return retired, s.error(ctx, "sweep", checkpoint.Key{}, err)
}
