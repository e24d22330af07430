package sqlitestream

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all names in the database. It is one identifier; "" means "holdfast_".
	Prefix string

	// Keep is how many chunks of a session are kept at least. 0 or less means stream.DefaultKeep.
	Keep int

	// TTL is how long the chunks of a session are kept after its last Append. 0 means stream.DefaultTTL.
	TTL time.Duration

	// Poll is how often the store asks what other processes have appended, while readers wait. 0 means 25ms.
	Poll time.Duration
}

// A Store is a [stream.Store] in two tables of an SQLite database. It keeps prepared statements on the connections of
// its *sql.DB until that is closed. So make one Store and keep it.
type Store struct {
	db     *sqlitestore.DB
	keep   int64
	ttl    time.Duration
	hub    *tail.Hub
	cursor sqlitestore.Cursor[stream.Key]
}

var (
	_ stream.Store   = (*Store)(nil)
	_ stream.Sweeper = (*Store)(nil)
)

// ErrDSN refuses a database that would lose acknowledged writes, fail instead of waiting, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix, "streams", "chunks")
	if err != nil {
		panic("sqlitestream: " + err.Error())
	}
	s := &Store{
		db:   sqlitestore.New(db, layout(prefix)),
		keep: int64(stream.KeepOf(o.Keep)), ttl: cmp.Or(max(o.TTL, 0), stream.DefaultTTL),
	}
	s.hub = tail.NewHub(tail.Source{
		ID: id, Ask: s.ask, Poll: cmp.Or(max(o.Poll, 0), 25*time.Millisecond),
	})
	return s
}

// id returns a name of a session for the hub.
func id(k stream.Key) string { return k.Orchestrator + "\x00" + k.Session }

// since returns the earliest time of a last Append for which a session is known, in µs.
func (s *Store) since() int64 { return time.Now().Add(-s.ttl).UnixMicro() }

// error adds the operation and its session to err, and its meaning in the contract.
func (s *Store) error(ctx context.Context, op string, k stream.Key, err error) error {
	if err != nil {
		return fmt.Errorf("sqlitestream: %s %q: %w", op, k.Session, s.db.Explain(ctx, err))
	}
	return nil
}

// first returns the first row of a statement; nil if there is none.
func first[T any](rows *sql.Rows, err error, read func(*sql.Rows) (T, error)) (*T, error) {
	all, err := sqlitestore.Collect(rows, err, read)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}
