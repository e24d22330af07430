package pgsnapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a store: such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string
	// Remember is how long Sweep leaves the fence of a session without a run; 0 or less means snapshot.DefaultRemember.
	Remember time.Duration

	// Functions makes the store call functions of the database instead of sending statements. Schema then creates these
	// functions too. migrations.Up does not. Use Functions on Citus, which refuses the statements, and if the driver
	// may not keep prepared statements. Elsewhere the calls are a little slower. Join wants Functions of both stores,
	// or of neither.
	Functions bool
}

// Store implements [snapshot.Store], [snapshot.Sweeper] and [snapshot.Joiner].
type Store struct {
	db       *pgstate.DB
	prefix   sqlname.Prefix
	sql      queries
	calls    *calls // nil without Options.Functions
	remember time.Duration
	sweeper  *pgsweep.Sweeper
}

var (
	_ snapshot.Store   = (*Store)(nil)
	_ snapshot.Sweeper = (*Store)(nil)
	_ snapshot.Joiner  = (*Store)(nil)

	_ lock.Raiser = (*Store)(nil)
)

// New returns a store on db. The prefix, a constant of the program, is one or two identifiers that leave room for the
// names of tables. Otherwise New panics.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	named := suffixes
	if o.Functions {
		named = slices.Concat(suffixes, functions)
	}
	p, err := sqlname.Parse(o.Prefix, named...)
	if err != nil {
		panic("pgsnapshot: " + err.Error())
	}
	d := pgstate.New(db)
	s := &Store{
		db: d, prefix: p, sql: fillAll(p), remember: cmp.Or(max(o.Remember, 0), snapshot.DefaultRemember),
		sweeper: pgsweep.New(d, templates.sweep, names(p)),
	}
	if o.Functions {
		s.calls = fillCalls(p)
		s.sweeper = pgsweep.NewByCalls(d, s.calls.slice, s.calls.retire, names(p))
	}
	return s
}

// error adds the operation and the session to err, and keeps the identity of err.
func (s *Store) error(ctx context.Context, op string, k snapshot.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrFenced) || errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	if pgstate.Missing(err) && s.calls != nil {
		return fmt.Errorf("pgsnapshot: %s: %w: %s, %s or a function like %s: run Store.Schema of a store with "+
			"Options.Functions; if they are there, the role lacks USAGE on their schema: %w",
			op, snapshot.ErrSchema, s.prefix.Plain("runs"), s.prefix.Plain("run_parts"),
			s.prefix.Plain(functions[0]), err)
	}
	if pgstate.Missing(err) {
		return fmt.Errorf("pgsnapshot: %s: %w: %s or %s: run migrations.Up, or Store.Schema for a prefix of your own"+
			"; if they are there, the role lacks USAGE on their schema: %w",
			op, snapshot.ErrSchema, s.prefix.Plain("runs"), s.prefix.Plain("run_parts"), err)
	}
	if pgstate.Refused(err) {
		err = fmt.Errorf("%w: %s%w", snapshot.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if k == (snapshot.Key{}) {
		return fmt.Errorf("pgsnapshot: %s: %w", op, err)
	}
	return fmt.Errorf("pgsnapshot: %s %q of %q: %w", op, k.Session, k.Orchestrator, err)
}
