package sqlitecheckpoint

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
)

const turnsSQL = `
		SELECT turn, state, payload, route, signature, version, run_id, coalesce(request_id, ''), saved_at
		FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND turn <= ?3
		ORDER BY turn DESC
		LIMIT ?4`

// Pages of turns grow: most readers want the newest, some want them all.
const turnsPage = 16

// Turns reads pages of 1, 4 and then 16 turns.
func (s *Store) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		st, err := s.db.Start(ctx, k.Validate())
		turn := from
		for limit := 1; err == nil; limit = min(4*limit, turnsPage) {
			var page []finding
			page, err = readTurns(ctx, st, k, turn, limit)
			for _, f := range page {
				if !yield(f.Checkpoint, f.judge(k)) {
					return
				}
				turn = f.Turn - 1
			}
			if err == nil && len(page) < limit {
				return
			}
		}
		yield(checkpoint.Checkpoint{},
			fmt.Errorf("sqlitecheckpoint: turns of %q: %w", k.Session, s.db.Explain(ctx, err)))
	}
}
