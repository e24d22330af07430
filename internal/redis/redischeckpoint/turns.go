package redischeckpoint

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// maxTurns is small because most readers want the newest turns, and a state may have megabytes.
const maxTurns = 16

// Turns reads pages of 1, 4 and then 16 turns, each in one script.
func (s *Store) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		if err := s.turns(ctx, k, from, yield); err != nil {
			yield(checkpoint.Checkpoint{}, fmt.Errorf("redis: turns of %q: %w", k.Session, err))
		}
	}
}

// turns returns an error for its caller to yield. If yield wants no more, turns returns nil.
func (s *Store) turns(
	ctx context.Context, k checkpoint.Key, from int, yield func(checkpoint.Checkpoint, error) bool,
) error {
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return err
	}
	for size := 1; ; size = min(4*size, maxTurns) {
		r, err := s.redis.Run(ctx, turnsScript, s.sessionKeys(k), from, size)
		if err != nil {
			return damaged(k, err)
		}
		page := rows(r.Values)
		for _, row := range page {
			cp, err := row.checkpoint(k)
			if !yield(cp, err) {
				return nil
			}
			from = cp.Turn - 1
		}
		if len(page) < size {
			return nil
		}
	}
}
