// Package sqliteinbox is an [inbox.Store] in an SQLite file. Package sqlite says what a user has to know.
//
// An index has the items of a kind in the order of the contract. So the cost of Items grows with the items that it
// yields only.
package sqliteinbox

import (
	"cmp"
	"database/sql"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string
}

// A Store keeps items.
type Store struct{ db *sqlitestore.DB }

var _ inbox.Store = (*Store)(nil)

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	return &Store{db: sqlitestore.New(db, o.Prefix, layout)}
}
