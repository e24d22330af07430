package pgcheckpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a store. Such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_". "" means "holdfast_".
	Prefix string
	// TTL is how long a session is idle before Sweep retires it. If TTL is 0, sessions with a settled turn stay.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// checkpoint.DefaultUnsettled.
	Unsettled time.Duration

	// Functions makes the store call functions of the database instead of sending statements. Schema then creates these
	// functions too, and migrations.Up does not. Functions are for Citus, which refuses the statements, and for a
	// driver that may not keep prepared statements. Elsewhere they are a little slower. A joined store of runs must
	// have Functions too.
	Functions bool

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *pgprocess.Processes
}

// Store implements [checkpoint.Store], [checkpoint.Sweeper], [lock.Watcher], [lock.Beater] and
// [checkpoint.Inspector].
type Store struct {
	*pgprocess.Processes

	db     *pgstate.DB
	prefix sqlname.Prefix
	sql    queries
	calls  *calls // nil without Options.Functions
	// ttl is for sessions with a settled turn. 0 means for ever.
	ttl     time.Duration
	sweeper *pgsweep.Sweeper
}

var (
	_ checkpoint.Store     = (*Store)(nil)
	_ checkpoint.Sweeper   = (*Store)(nil)
	_ lock.Watcher         = (*Store)(nil)
	_ lock.Beater          = (*Store)(nil)
	_ checkpoint.Inspector = (*Store)(nil)

	_ lock.Raiser = (*Store)(nil)
)

// New returns a store on db. It panics if the prefix is not one or two identifiers, short enough for the names of
// tables: a prefix is a constant of the program.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	named := slices.Concat(suffixes, pgprocess.Suffixes)
	if o.Functions {
		named = append(named, functions...)
	}
	p, err := sqlname.Parse(o.Prefix, named...)
	if err != nil {
		panic("pgcheckpoint: " + err.Error())
	}
	d := pgstate.New(db)
	unsettled := strings.NewReplacer("{unsettled}",
		strconv.FormatInt(cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled).Microseconds(), 10))
	sweep := unsettled.Replace(templates.sweep)
	s := &Store{
		Processes: cmp.Or(o.Processes, pgprocess.New(d, p)),
		db:        d, prefix: p, sql: fillAll(p), ttl: o.TTL, sweeper: pgsweep.New(d, sweep, names(p)),
	}
	if o.Functions {
		s.calls = fillCalls(p)
		s.sweeper = pgsweep.NewByCalls(d, unsettled.Replace(s.calls.slice), unsettled.Replace(s.calls.retire), names(p))
	}
	return s
}

// exec reports whether a statement touched a row.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (touched bool, err error) {
	err = s.db.Answered(ctx, func() error {
		tag, err := s.db.Exec(ctx, sql, args...)
		touched = tag.RowsAffected() > 0
		return err
	})
	return touched, err
}

// error adds the name of the operation that failed. It keeps the identity of err. If the driver only tells of a broken
// connection, error adds the end of ctx.
func (s *Store) error(ctx context.Context, op string, k checkpoint.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrFenced) ||
		errors.Is(err, checkpoint.ErrConflict) {
		return err
	}
	if pgstate.Missing(err) && s.calls != nil {
		return fmt.Errorf("pgcheckpoint: %s: %w: %s, %s or a function like %s: run Store.Schema of a store with "+
			"Options.Functions; if they are there, the role lacks USAGE on their schema: %w",
			op, checkpoint.ErrSchema, s.prefix.Plain("sessions"), s.prefix.Plain("turns"),
			s.prefix.Plain(functionNamed("session_claim")), err)
	}
	if pgstate.Missing(err) {
		return fmt.Errorf("pgcheckpoint: %s: %w: %s or %s: run migrations.Up, or Store.Schema for a prefix of your own"+
			"; if they are there, the role lacks USAGE on their schema: %w",
			op, checkpoint.ErrSchema, s.prefix.Plain("sessions"), s.prefix.Plain("turns"), err)
	}
	if pgstate.Refused(err) {
		err = fmt.Errorf("%w: %s%w", checkpoint.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if k == (checkpoint.Key{}) {
		return fmt.Errorf("pgcheckpoint: %s: %w", op, err)
	}
	return fmt.Errorf("pgcheckpoint: %s %q of %q: %w", op, k.Session, k.Orchestrator, err)
}
