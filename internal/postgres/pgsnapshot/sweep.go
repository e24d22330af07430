package pgsnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/snapshot"
)

// Sweep forgets sessions whose last run was deleted longer ago than [Options].Remember. It skips rows that are locked.
// With a limit Sweep looks at a part of the sessions, and continues there the next time. If several processes sweep at
// once, one of them does the work. So Sweep costs the same, however much the table holds.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	forgotten, err = s.sweeper.Sweep(ctx, s.remember, limit)
	return forgotten, s.error(ctx, "sweep", snapshot.Key{}, err)
}
