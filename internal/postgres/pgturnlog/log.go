package pgturnlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a log: such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Options configure a [Log]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string
}

// Log implements [turnlog.Lister].
type Log struct {
	db     *pgstate.DB
	prefix sqlname.Prefix
	sql    queries
}

var _ turnlog.Lister = (*Log)(nil)

// New returns a log on db. The prefix, a constant of the program, is one or two identifiers that leave room for the
// names of tables. Otherwise New panics.
func New(db DB, o *Options) *Log {
	if o == nil {
		o = new(Options)
	}
	p, err := sqlname.Parse(o.Prefix, suffixes...)
	if err != nil {
		panic("pgturnlog: " + err.Error())
	}
	return &Log{db: pgstate.New(db), prefix: p, sql: fillAll(p)}
}

// error adds the operation and its run to err, and keeps the identity of err.
func (l *Log) error(ctx context.Context, op, run string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, turnlog.ErrChanged):
		return turnlog.ErrChanged
	case pgstate.Missing(err):
		return fmt.Errorf("pgturnlog: %s: %w: %s or %s: run migrations.Up, or Log.Schema for a prefix of your own"+
			"; if they are there, the role lacks USAGE on their schema: %w",
			op, turnlog.ErrSchema, l.prefix.Plain("phases"), l.prefix.Plain("logged"), err)
	case pgstate.Refused(err):
		err = fmt.Errorf("%w: %s%w", turnlog.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if run == "" {
		return fmt.Errorf("pgturnlog: %s: %w", op, err)
	}
	return fmt.Errorf("pgturnlog: %s %q: %w", op, run, err)
}
