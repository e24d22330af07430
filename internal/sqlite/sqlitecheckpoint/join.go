package sqlitecheckpoint

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// A Forget is the work of the store of runs in the transaction of an Append. It deletes the run of a lease that settles
// as cp, and reports whether the run was in flight.
type Forget func(
	ctx context.Context, tx *sql.Tx, l checkpoint.Lease, cp checkpoint.Checkpoint,
) (forgotten bool, err error)

// A Joined is an Append with a Forget in its transaction.
type Joined func(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, f Forget,
) (forgotten bool, err error)

// Joined returns the Joined of s and a store of runs; nil if that store is on another *sql.DB.
func (s *Store) Joined(other *sqlitestore.DB) Joined {
	if !other.Beside(s.db) {
		return nil
	}
	return s.append
}
