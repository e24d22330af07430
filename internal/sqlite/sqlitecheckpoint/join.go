package sqlitecheckpoint

import (
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitejoin"
)

// Joined returns the Append of s with a part of the Join of package sqlitesnapshot in its transaction. If the part is
// of another *sql.DB, Joined returns nil.
func (s *Store) Joined(part sqlitejoin.Part) func(
	context.Context, checkpoint.Lease, checkpoint.Checkpoint, checkpoint.AppendOptions,
) (forgotten bool, err error) {
	if !part.DB.Beside(s.db) {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (forgotten bool, err error) {
		return s.append(ctx, l, cp, o, part.Forget)
	}
}
