package sqliteledger

import (
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Ledger]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all names in the database. It is one identifier; "" means "holdfast_".
	Prefix string

	// DoubtFor is how long the window is open that Raise opens: see package ledger. All processes see the window of one
	// Raise. 0 means [ledger.DefaultDoubt], and less than 0 that Raise opens none.
	DoubtFor time.Duration
}

// A Ledger keeps effects in tables of an SQLite database. It keeps prepared statements on the connections of its
// *sql.DB until that is closed. So make one Ledger and keep it.
type Ledger struct {
	db    *sqlitestore.DB
	doubt time.Duration
}

var (
	_ ledger.Ledger = (*Ledger)(nil)

	_ lock.Raiser = (*Ledger)(nil)
)

// ErrDSN refuses a database that would lose acknowledged writes, fail instead of waiting, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a ledger on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Ledger {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix, "effects", "effects_open", "effects_answer", "effects_run",
		"effects_session", "effect_fences", "effect_raises")
	if err != nil {
		panic("sqliteledger: " + err.Error())
	}
	return &Ledger{db: sqlitestore.New(db, layout(prefix)), doubt: o.DoubtFor}
}
