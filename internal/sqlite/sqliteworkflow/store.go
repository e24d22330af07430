// Package sqliteworkflow is a [workflow.Store] in an SQLite file. Package sqlite says what a user has to know.
//
// The table of runs has one row for each run. The row is small, because SQLite writes whole rows: the input of the run
// is in a table of its own. An index has the runs of a definition by status and by the time at which they are due. It
// serves claims, takeovers and the next timer, and their cost does not grow with the runs that are over.
//
// Each call is one transaction, which takes the write lock first. A Claim looks without the lock, and takes it only if
// it finds runs. A Claim commits without waiting for the disk.
package sqliteworkflow

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteprocess"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string

	// MaxAge is the most that a run is kept after its end. 0 means WORKFLOWS_MAX_RETENTION_DAYS, or 365 days.
	MaxAge time.Duration

	// FailUnknown ends as failed the runs that Sweep would hold as workflow.HoldUnknown.
	FailUnknown bool

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *sqliteprocess.Processes
}

// A Store keeps runs.
type Store struct {
	*sqliteprocess.Processes
	front
}

var (
	_ workflow.Store    = (*Store)(nil)
	_ workflow.Listener = (*Store)(nil)

	_ lock.Beater = (*Store)(nil)
)

// New returns a store on db, which stays the caller's. It panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	d := sqlitestore.New(db, o.Prefix, layout)
	return &Store{
		cmp.Or(o.Processes, sqliteprocess.New(d)),
		front{core: &core{db: d, most: retention.MostDays(o.MaxAge), failUnknown: o.FailUnknown}},
	}
}

// In returns the store in a transaction of the program.
func (s *Store) In(tx *sql.Tx) workflow.Front { return front{s.core, tx} }

// A core has the fields that all methods need.
type core struct {
	hub

	db          *sqlitestore.DB
	most        int // days
	failUnknown bool
}

// A front has the methods that need no ownership. tx is a transaction of the program; if it is nil, each call has its
// own.
type front struct {
	*core

	tx *sql.Tx
}

// A run executes the statements of the layout.
type run struct {
	sqlitestore.Runner

	*core
}

// lockSQL changes nothing. It makes its transaction wait until the transaction may write, so that all later statements
// see what other writers have written.
const lockSQL = `UPDATE {prefix}workflow_runs SET mail = mail WHERE id = ''`

func (do run) lock(ctx context.Context) error {
	_, err := do.Exec(ctx, lockSQL)
	return err
}

// write calls f in the transaction. invalid is an error of the arguments.
func (c front) write(ctx context.Context, op string, invalid error, f func(run) error) error {
	var err error
	if c.tx != nil {
		if err = cmp.Or(invalid, ctxcause.Of(ctx)); err == nil {
			err = c.admit(ctx)
		}
		if err == nil {
			err = f(run{c.db.Guest(c.tx), c.core})
		}
		return c.explain(ctx, op, err)
	}
	st, err := c.db.Start(ctx, invalid)
	if err == nil {
		err = c.db.Write(ctx, func(tx *sql.Tx) error { return c.locked(ctx, tx, st, f) })
	}
	return c.explain(ctx, op, err)
}

// locked calls f in a transaction of the store, with the write lock.
func (c *core) locked(ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, f func(run) error) error {
	do := run{sqlitestore.Within(tx, st), c}
	if err := do.lock(ctx); err != nil {
		return err
	}
	return f(do)
}

// admit takes the write lock in the transaction of the program, and checks that the transaction keeps the promises of
// the store. A transaction that has not read waits for other writers, so the lock comes first.
func (c front) admit(ctx context.Context) error {
	err := run{c.db.Guest(c.tx), c.core}.lock(ctx)
	switch {
	case sqlitestore.Busy(err):
		return fmt.Errorf("%w: begin the transaction with BEGIN IMMEDIATE, or let it wait longer: %w",
			workflow.ErrRefused, err)
	case err != nil:
		return err
	}
	return c.db.Admit(ctx, c.tx)
}

// reader returns what reads without the write lock.
func (c front) reader(ctx context.Context, invalid error) (run, error) {
	if c.tx != nil {
		return run{c.db.Guest(c.tx), c.core}, cmp.Or(invalid, ctxcause.Of(ctx))
	}
	st, err := c.db.Start(ctx, invalid)
	return run{sqlitestore.Alone(st), c.core}, err
}

// note tells the engines of this process. They find nothing in a transaction of the program before it commits.
func (c front) note(notes ...workflow.Note) {
	if c.tx != nil {
		return
	}
	for _, n := range notes {
		c.Tell(n)
	}
}

func (c front) explain(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case c.tx != nil:
		return fmt.Errorf("sqliteworkflow: %s: %w", op, c.db.ExplainIn(ctx, c.tx, err))
	}
	return fmt.Errorf("sqliteworkflow: %s: %w", op, c.db.Explain(ctx, err))
}

// clock returns the time of the store, as it is kept.
func clock() time.Time { return time.UnixMicro(time.Now().UnixMicro()).UTC() }
