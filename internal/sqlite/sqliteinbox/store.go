package sqliteinbox

import (
	"database/sql"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all names in the database. It is one identifier; "" means "holdfast_".
	Prefix string
}

// A Store keeps items in a table of an SQLite database. It keeps prepared statements on the connections of its *sql.DB
// until that is closed. So make one Store and keep it.
type Store struct{ db *sqlitestore.DB }

var _ inbox.Store = (*Store)(nil)

// ErrDSN refuses a database that would lose acknowledged writes, fail instead of waiting, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix, "inbox", "inbox_order")
	if err != nil {
		panic("sqliteinbox: " + err.Error())
	}
	return &Store{db: sqlitestore.New(db, layout(prefix))}
}
