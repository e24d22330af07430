// Package sqliteturnlog keeps a turn log in an SQLite file. Package sqlite says what a user has to know.
//
// The table of phases has one row for each entry. The table of logged runs has one row for each run: its session, its
// first and its last entry, and whether it is open. An index holds the runs that are open, so that the cost of listing
// them grows with these only. Times come from the entries, in milliseconds.
package sqliteturnlog

import (
	"cmp"
	"database/sql"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Options configure a [Log]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string
}

// A Log keeps entries.
type Log struct{ db *sqlitestore.DB }

var _ turnlog.Lister = (*Log)(nil)

// New returns a log on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Log {
	o = cmp.Or(o, new(Options))
	return &Log{db: sqlitestore.New(db, o.Prefix, layout)}
}
