// Package sqlitejoin lets a turn log on SQLite write in the transaction in which a turn settles.
package sqlitejoin

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A Log is a turn log on SQLite.
type Log interface {
	// DB returns the database of the log.
	DB() *sqlitestore.DB

	// RecordEnd records the end of a run in a transaction that has written. If the log has an entry for the end at that
	// time, RecordEnd adds none.
	RecordEnd(ctx context.Context, tx *sql.Tx, e End) (added bool, err error)

	// RecordIn records entries in a transaction that has written. If one of them is known, added is false, and the
	// caller rolls the transaction back.
	RecordIn(ctx context.Context, tx *sql.Tx, all []turnlog.Entry) (added bool, err error)
}

// An End is the last entry of a run.
type End struct {
	Run, Orchestrator, Session string
	Turn                       int
	At                         time.Time
	State                      string
}
