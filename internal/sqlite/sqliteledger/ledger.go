// Package sqliteledger keeps a ledger of effects in an SQLite file. Package sqlite says what a user has to know.
//
// The table of effects has one row for each effect, numbered in the order of the first issue. An index holds the
// effects that are open, so that the cost of listing them grows with these only. The table of effect fences has one row
// for each run that was adopted or has effects. The table of effect raises has one row for each Raise.
//
// Issue, Finish and Record are one statement each, which commits by itself. If a call changes nothing, it costs a
// second statement, which finds out why and waits for no disk. Adopt is a transaction, and so is the first Issue or
// Record of a fence. SQLite has one writer at a time, so an Adopt and an Issue never overlap.
package sqliteledger

import (
	"cmp"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Ledger]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string

	// DoubtFor is how long the window is open that Raise opens: see package ledger. All processes see the window of one
	// Raise. 0 means [ledger.DefaultDoubt], and less than 0 that Raise opens none.
	DoubtFor time.Duration
}

// A Ledger keeps effects.
type Ledger struct {
	db    *sqlitestore.DB
	doubt time.Duration
}

var (
	_ ledger.Ledger = (*Ledger)(nil)

	_ lock.Raiser = (*Ledger)(nil)
)

// New returns a ledger on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Ledger {
	o = cmp.Or(o, new(Options))
	return &Ledger{db: sqlitestore.New(db, o.Prefix, layout), doubt: o.DoubtFor}
}
