// Package sqlitetranscript is a [transcript.Store] in an SQLite file. Package sqlite says what a user has to know.
//
// A row is an entry, with all its messages. The primary key has the entries of a session by number, so the cost of a
// call grows with the entries that it is about. Only a Trim looks at all entries of its session, and reads no message.
package sqlitetranscript

import (
	"cmp"
	"database/sql"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/transcript"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string
}

// A Store keeps transcripts.
type Store struct{ db *sqlitestore.DB }

var (
	_ transcript.Store  = (*Store)(nil)
	_ transcript.Raiser = (*Store)(nil)
)

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	return &Store{db: sqlitestore.New(db, o.Prefix, layout)}
}
