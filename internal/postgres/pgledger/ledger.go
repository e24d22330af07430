package pgledger

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

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
	db    *pgstate.DB
	sql   queries
	doubt time.Duration
}

var (
	_ ledger.Ledger = (*Ledger)(nil)
	_ lock.Raiser   = (*Ledger)(nil)
)

// New returns a ledger on pool, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Ledger {
	o = cmp.Or(o, new(Options))
	d := pgstate.New(pool, pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: indexes})
	return &Ledger{db: d, sql: fillAll(d), doubt: o.DoubtFor}
}

// error returns a verdict as it is, and any other error with the operation and its effect or run.
func (l *Ledger) error(ctx context.Context, op, id string, err error) error {
	for _, verdict := range []error{lock.ErrFenced, ledger.ErrNotFound} {
		if errors.Is(err, verdict) {
			return verdict
		}
	}
	return l.db.ErrorOf(ctx, op, id, err)
}
