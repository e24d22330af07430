package pginbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/sqlname"
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
	// Prefix begins the name of the table. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string
}

// A Store keeps items in a table.
type Store struct {
	db     *pgstate.DB
	prefix sqlname.Prefix
	sql    queries
}

var _ inbox.Store = (*Store)(nil)

// New returns a store on db. The prefix, a constant of the program, is one or two identifiers that leave room for the
// names of the table and its indexes. Otherwise New panics.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	p, err := sqlname.Parse(o.Prefix, suffixes...)
	if err != nil {
		panic("pginbox: " + err.Error())
	}
	return &Store{db: pgstate.New(db), prefix: p, sql: fillAll(p)}
}

// error adds the operation and its session to err, and keeps the identity of err.
func (s *Store) error(ctx context.Context, op string, k inbox.Key, err error) error {
	switch {
	case err == nil:
		return nil
	case pgstate.Missing(err):
		return fmt.Errorf("pginbox: %s: %w: %s: run migrations.Up, or Store.Schema for a prefix of your own"+
			"; if it is there, the role lacks USAGE on its schema: %w",
			op, inbox.ErrSchema, s.prefix.Plain("inbox"), err)
	case pgstate.Refused(err):
		err = fmt.Errorf("%w: %s%w", inbox.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if k.Session == "" {
		return fmt.Errorf("pginbox: %s of %q: %w", op, k.Orchestrator, err)
	}
	return fmt.Errorf("pginbox: %s %q: %w", op, k.Session, err)
}
