package pgsnapshot

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Options configure a [Store], as those of package postgres do. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix    string
	Remember  time.Duration // how long Sweep leaves the fence of a session without a run; 0: snapshot.DefaultRemember
	Functions bool          // a joined store of turns has them too
}

// A Store keeps runs in two tables.
type Store struct {
	db       *pgstate.DB
	sql      queries
	calls    *calls // nil without Options.Functions
	remember time.Duration
	sweeper  *pgsweep.Sweeper
}

var (
	_ snapshot.Store   = (*Store)(nil)
	_ snapshot.Sweeper = (*Store)(nil)
	_ snapshot.Joiner  = (*Store)(nil)
	_ lock.Raiser      = (*Store)(nil)
)

// New returns a store on pool, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	n := pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: indexes}
	if o.Functions {
		n.Functions = functions
	}
	d := pgstate.New(pool, n)
	names := names(d)
	s := &Store{
		db: d, sql: fillAll(names), remember: cmp.Or(max(o.Remember, 0), snapshot.DefaultRemember),
		sweeper: pgsweep.New(d, templates.sweep, names),
	}
	if o.Functions {
		s.calls = fillCalls(names)
		s.sweeper = pgsweep.NewByCalls(d, s.calls.slice, s.calls.retire, names)
	}
	return s
}

// error returns a verdict as it is, and any other error with the operation and its session.
func (s *Store) error(ctx context.Context, op string, k snapshot.Key, err error) error {
	if errors.Is(err, lock.ErrFenced) || errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	return s.db.Error(ctx, op, k, err)
}
