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
	// Prefix begins all names in the database. It is one identifier. "" means "holdfast_".
	Prefix string
	// TTL is how long a session is idle before Sweep retires it. If TTL is 0, sessions with a settled turn stay.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// checkpoint.DefaultUnsettled.
	Unsettled time.Duration

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *sqliteprocess.Processes
}

// A Store keeps sessions in two tables of an SQLite database. It has prepared statements on the connections of its
// *sql.DB as long as the *sql.DB is open: make one Store and keep it.
type Store struct {
	*sqliteprocess.Processes

	db  *sqlitestore.DB
	ttl time.Duration // 0: for ever

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

// ErrDSN refuses a database that would lose acknowledged data, fail where it should wait, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a store on db, which stays the caller's. It panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix, "sessions", "turns", "sessions_owed", "turns_request", "beats")
	if err != nil {
		panic("sqlitecheckpoint: " + err.Error())
	}
	unsettled := cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled)
	d := sqlitestore.New(db, layout(prefix))
	return &Store{Processes: cmp.Or(o.Processes, sqliteprocess.New(d)), db: d, ttl: o.TTL, unsettled: unsettled}
}
