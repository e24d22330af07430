package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string        // of all names in the database, one identifier; "" means "holdfast_"
	TTL    time.Duration // how long a session is idle before Sweep retires it; 0: sessions stay
}

// A Store keeps sessions in two tables of an SQLite database. It has prepared statements on the connections of its
// *sql.DB as long as that is open: make one and keep it.
type Store struct {
	db       *sql.DB
	prefix   string
	ttl      time.Duration
	prepared atomic.Pointer[statements] // nil until the database has been found fit

	writer chan struct{} // holds a token while one of our goroutines writes; protects epoch
	epoch  int64         // the highest one seen: deleting a session does not bring it back
}

var (
	_ checkpoint.Store   = (*Store)(nil)
	_ checkpoint.Sweeper = (*Store)(nil)
)

// New returns a store on db, which stays the caller's. It panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	prefix, err := parsePrefix(o.Prefix)
	if err != nil {
		panic("sqlitecheckpoint: " + err.Error())
	}
	return &Store{db: db, prefix: prefix, ttl: o.TTL, writer: make(chan struct{}, 1)}
}

const (
	deleteHeadSQL = `
		DELETE FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2`

	deleteTurnsSQL = `
		DELETE FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2`
)

// Delete removes the session and its turns, together.
func (s *Store) Delete(ctx context.Context, k checkpoint.Key) error {
	if err := s.delete(ctx, k); err != nil {
		return fmt.Errorf("sqlitecheckpoint: delete %q: %w", k.Session, s.explain(ctx, err))
	}
	return nil
}

func (s *Store) delete(ctx context.Context, k checkpoint.Key) error {
	st, err := s.start(ctx, k.Validate())
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		for _, text := range []string{deleteHeadSQL, deleteTurnsSQL} {
			if _, err := tx.StmtContext(ctx, st[text]).ExecContext(ctx, k.Orchestrator, k.Session); err != nil {
				return err
			}
		}
		return nil
	})
}
