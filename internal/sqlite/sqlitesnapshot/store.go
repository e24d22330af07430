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
	// Prefix begins all names in the database. It is one identifier; "" means "holdfast_".
	Prefix string
	// Remember is how long Sweep leaves a session without a run; 0 or less means snapshot.DefaultRemember.
	Remember time.Duration
}

// A Store keeps runs in two tables of an SQLite database. It keeps prepared statements on the connections of its
// *sql.DB until that is closed. So make one Store and keep it.
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

// ErrDSN refuses a database that would lose acknowledged writes, fail instead of waiting, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix, "runs", "runs_inflight", "runs_drain", "run_parts")
	if err != nil {
		panic("sqlitesnapshot: " + err.Error())
	}
	remember := cmp.Or(max(o.Remember, 0), snapshot.DefaultRemember)
	return &Store{db: sqlitestore.New(db, layout(prefix)), remember: remember}
}
