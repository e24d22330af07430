package pgcheckpoint

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Pages grow: Load wants only one turn, and a long history should not cost a round trip a turn.
const firstTurns, mostTurns = 1, 16

// Turns reads pages of 1, 4 and then 16 turns. It reads a damaged page turn by turn.
func (s *Store) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		if err := k.Validate(); err != nil {
			yield(checkpoint.Checkpoint{}, err)
			return
		}
		next := min(from, checkpoint.Newest)
		for size := firstTurns; next >= 0; size = min(4*size, mostTurns) {
			page, err := s.page(ctx, k, next, size)
			if err != nil {
				yield(checkpoint.Checkpoint{}, s.error(ctx, "turns", k, err))
				return
			}
			for _, f := range page {
				if !yield(f.Checkpoint, s.error(ctx, "turns", k, f.judge(k))) {
					return
				}
				next = f.Turn - 1
			}
			if len(page) < size {
				return
			}
		}
	}
}
