package pgstream

import (
	"context"

	"github.com/holdfast-go/holdfast/stream"
)

// Sweep implements [stream.Sweeper]. With a limit it looks at a part of the sessions, and goes on there the next time.
// Of several processes only one sweeps. So the cost does not grow with the table.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	forgotten, err = s.sweeper.Sweep(ctx, s.ttl, limit)
	return forgotten, s.error(ctx, "sweep", stream.Key{}, err)
}
