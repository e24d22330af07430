package pgturnlog

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Options configure a [Log]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string
}

// Log implements [turnlog.Lister].
type Log struct {
	db  *pgstate.DB
	sql queries
}

var _ turnlog.Lister = (*Log)(nil)

// New returns a log on pool, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Log {
	o = cmp.Or(o, new(Options))
	d := pgstate.New(pool, pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: indexes})
	return &Log{db: d, sql: fillAll(d)}
}

// error returns a verdict as it is, and any other error with the operation and its run.
func (l *Log) error(ctx context.Context, op, run string, err error) error {
	if errors.Is(err, turnlog.ErrChanged) {
		return turnlog.ErrChanged
	}
	return l.db.ErrorOf(ctx, op, run, err)
}
