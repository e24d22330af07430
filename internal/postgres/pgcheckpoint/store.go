package pgcheckpoint

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Store], as those of package postgres do. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix    string
	TTL       time.Duration // of a session with a settled turn; 0 means for ever
	Unsettled time.Duration // the TTL of the others; 0 means checkpoint.DefaultUnsettled
	Functions bool          // a joined store of runs has them too

	// Said says that the database has transcripts, which go with the sessions that are retired. With Functions they
	// stay.
	Said bool

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *pgprocess.Processes
}

// A Store keeps sessions, turns and labels in a table each.
type Store struct {
	*pgprocess.Processes

	db      *pgstate.DB
	sql     queries
	calls   *calls // nil without Options.Functions
	ttl     time.Duration
	sweeper *pgsweep.Sweeper
}

var (
	_ checkpoint.Store     = (*Store)(nil)
	_ checkpoint.Sweeper   = (*Store)(nil)
	_ lock.Watcher         = (*Store)(nil)
	_ lock.Beater          = (*Store)(nil)
	_ checkpoint.Inspector = (*Store)(nil)
	_ lock.Raiser          = (*Store)(nil)
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
	said := said
	if !o.Said {
		said = ""
	}
	unsettled := strings.NewReplacer("{said}", said, "{unsettled}",
		strconv.FormatInt(cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled).Microseconds(), 10))
	sweep := unsettled.Replace(templates.sweep)
	s := &Store{
		Processes: cmp.Or(o.Processes, pgprocess.New(d)),
		db:        d, sql: fillAll(names), ttl: o.TTL, sweeper: pgsweep.New(d, sweep, names),
	}
	if o.Functions {
		s.calls = fillCalls(names)
		s.sweeper = pgsweep.NewByCalls(d, unsettled.Replace(s.calls.slice), unsettled.Replace(s.calls.retire), names)
	}
	return s
}

// error returns a verdict as it is, and any other error with the operation and its session.
func (s *Store) error(ctx context.Context, op string, k checkpoint.Key, err error) error {
	if errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrFenced) || errors.Is(err, checkpoint.ErrConflict) {
		return err
	}
	return s.db.Error(ctx, op, k, err)
}
