package pgledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a ledger: such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Options configure a [Ledger]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string

	// DoubtFor is how long the window is open that Raise opens: see package ledger. All processes see the window of one
	// Raise. 0 means [ledger.DefaultDoubt], and less than 0 that Raise opens none.
	DoubtFor time.Duration
}

// Ledger implements [ledger.Ledger].
type Ledger struct {
	db     *pgstate.DB
	prefix sqlname.Prefix
	sql    queries
	doubt  time.Duration
}

var (
	_ ledger.Ledger = (*Ledger)(nil)

	_ lock.Raiser = (*Ledger)(nil)
)

// New returns a ledger on db. The prefix, a constant of the program, is one or two identifiers that leave room for the
// names of tables. Otherwise New panics.
func New(db DB, o *Options) *Ledger {
	if o == nil {
		o = new(Options)
	}
	p, err := sqlname.Parse(o.Prefix, suffixes...)
	if err != nil {
		panic("pgledger: " + err.Error())
	}
	return &Ledger{db: pgstate.New(db), prefix: p, sql: fillAll(p), doubt: o.DoubtFor}
}

// error adds the operation and its subject to err, and keeps the identity of err. The subject is an effect or a run.
func (l *Ledger) error(ctx context.Context, op, subject string, err error) error {
	for _, verdict := range []error{lock.ErrFenced, ledger.ErrNotFound} {
		if errors.Is(err, verdict) {
			return verdict
		}
	}
	switch {
	case err == nil:
		return nil
	case pgstate.Missing(err):
		return fmt.Errorf("pgledger: %s: %w: %s, %s or %s: run migrations.Up, or Ledger.Schema for a prefix of your "+
			"own; if they are there, the role lacks USAGE on their schema: %w", op, ledger.ErrSchema,
			l.prefix.Plain("effects"), l.prefix.Plain("effect_fences"), l.prefix.Plain("effect_raises"), err)
	case pgstate.Refused(err):
		err = fmt.Errorf("%w: %s%w", ledger.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if subject == "" {
		return fmt.Errorf("pgledger: %s: %w", op, err)
	}
	return fmt.Errorf("pgledger: %s %q: %w", op, subject, err)
}
