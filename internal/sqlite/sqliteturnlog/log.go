package sqliteturnlog

import (
	"database/sql"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Options configure a [Log]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all names in the database. It is one identifier; "" means "holdfast_".
	Prefix string
}

// A Log keeps entries in two tables of an SQLite database. It keeps prepared statements on the connections of its
// *sql.DB until that is closed. So make one Log and keep it.
type Log struct{ db *sqlitestore.DB }

var _ turnlog.Lister = (*Log)(nil)

// ErrDSN refuses a database that would lose acknowledged writes, fail instead of waiting, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a log on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Log {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix,
		"phases", "logged", "logged_first", "logged_open", "logged_session")
	if err != nil {
		panic("sqliteturnlog: " + err.Error())
	}
	return &Log{db: sqlitestore.New(db, layout(prefix))}
}
