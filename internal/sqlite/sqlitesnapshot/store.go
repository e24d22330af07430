// Package sqlitesnapshot keeps the runs in flight in an SQLite file. Package sqlite says what a user has to know.
//
// The table of runs has one row for each session. When the run is deleted, the row keeps its id and its fence without
// the payload, until [Store.Sweep] removes the row. An index holds the rows of the runs in flight, so that the cost of
// Runs grows with these rows only. The table of run parts has one row for each part of a run in flight. A run without
// parts never touches that table.
//
// A Save without a payload reads the stored payload, because SQLite updates whole rows. It writes the payload again
// only if the length of the row changes. A pause changes the length, and so does a status of another length, or a Seq
// that takes one byte more.
//
// Begin, Adopt, Save and Delete are one statement each, which commits by itself. If a call changes nothing, it costs a
// second statement, which finds out why and waits for no disk. A call that writes, reads or drops parts is a
// transaction.
package sqlitesnapshot

import (
	"cmp"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix   string
	Remember time.Duration // how long Sweep leaves a session without a run; 0 means snapshot.DefaultRemember
}

// A Store keeps runs.
type Store struct {
	db       *sqlitestore.DB
	remember time.Duration
	sweep    sqlitestore.Cursor[int64]
}

var (
	_ snapshot.Store   = (*Store)(nil)
	_ snapshot.Sweeper = (*Store)(nil)
	_ snapshot.Joiner  = (*Store)(nil)

	_ lock.Raiser = (*Store)(nil)
)

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	remember := cmp.Or(max(o.Remember, 0), snapshot.DefaultRemember)
	return &Store{db: sqlitestore.New(db, o.Prefix, layout), remember: remember}
}
