package redischeckpoint

import (
	"context"
	"slices"
)

// Bots returns the names of the orchestrators that have settled a turn, in byte order. It reads the names of all keys
// of all servers.
func (s *Store) Bots(ctx context.Context) ([]string, error) {
	names, err := s.redis.Names(ctx, ":sessions")
	slices.Sort(names)
	return slices.Compact(names), err
}
