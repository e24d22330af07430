package sqlitecheckpoint

import (
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlitejoin"
)

// Joined returns the Append of s with a part of [sqlitesnapshot.Store.Join] in its transaction. If the part is of
// another *sql.DB, Joined returns nil.
//
// [sqlitesnapshot.Store.Join]: https://pkg.go.dev/github.com/holdfast-go/holdfast/snapshot/sqlitesnapshot#Store.Join
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
