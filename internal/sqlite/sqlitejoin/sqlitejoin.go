// Package sqlitejoin lets one transaction write in both stores on SQLite.
package sqlitejoin

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// A Part is the work of the store of runs in the transaction in which the checkpoint store appends a turn.
type Part struct {
	DB *sqlitestore.DB // of the store of runs

	// Forget deletes the run of a lease, and reports whether it was in flight.
	Forget func(ctx context.Context, tx *sql.Tx, l checkpoint.Lease, run string) (forgotten bool, err error)
}
