// Package sqlitestream is a [stream.Store] in an SQLite file. Package sqlite says what a user has to know.
//
// The table of streams has one row for each session: its status, its newest run, and the numbers of its chunks. The
// table of chunks has one row for each Append: its chunks, as one JSON array. Append removes the oldest chunks of its
// session once there are twice as many as are to be kept. A session that is too old is unknown at once, and its rows
// stay until Sweep, or an Append for it.
//
// Append wakes the readers of its own Store at once. While readers of a Store wait, the Store asks for all of them in
// one query, each [Options].Poll, for what other processes have appended. The query holds no connection in between.
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
	Prefix string
	Keep   int           // 0 means stream.DefaultKeep
	TTL    time.Duration // after the last Append; 0 means stream.DefaultTTL
	Poll   time.Duration // how often the store asks what others have appended, while readers wait; 0 means 25ms
}

// A Store is a [stream.Store].
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

// New returns a store on db. db stays the caller's. New panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	s := &Store{
		db:   sqlitestore.New(db, o.Prefix, layout),
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
