// Package sqlitecheckpoint keeps the settled turns of sessions, and who owns each session, in an SQLite file. Package
// sqlite says what a user has to know.
package sqlitecheckpoint

import (
	"cmp"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteprocess"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix    string
	TTL       time.Duration // 0: sessions with a settled turn stay
	Unsettled time.Duration // 0 means checkpoint.DefaultUnsettled
	Said      bool          // the file has transcripts, which go with the sessions that are retired

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *sqliteprocess.Processes
}

// A Store keeps sessions.
type Store struct {
	*sqliteprocess.Processes

	db  *sqlitestore.DB
	ttl time.Duration // 0: for ever

	said bool // Options.Said

	// unsettled is ttl for sessions without a settled turn.
	unsettled time.Duration

	sweep sqlitestore.Cursor[checkpoint.Key]
	// epoch is the highest epoch seen, for the goroutine that writes. Deleting a session does not bring an epoch back.
	epoch int64
}

var (
	_ checkpoint.Store     = (*Store)(nil)
	_ checkpoint.Sweeper   = (*Store)(nil)
	_ lock.Beater          = (*Store)(nil)
	_ checkpoint.Inspector = (*Store)(nil)
)

// New returns a store on db, which stays the caller's. It panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	unsettled := cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled)
	d := sqlitestore.New(db, o.Prefix, layout)
	return &Store{
		Processes: cmp.Or(o.Processes, sqliteprocess.New(d)), db: d, ttl: o.TTL, said: o.Said, unsettled: unsettled,
	}
}
