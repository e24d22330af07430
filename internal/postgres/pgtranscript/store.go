package pgtranscript

import (
	"cmp"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/transcript"
)

// Options configure a [Store], as those of package postgres do. The zero value, and nil, mean the defaults.
type Options struct{ Prefix string }

// A Store keeps transcripts in two tables.
type Store struct {
	db  *pgstate.DB
	sql queries
}

var (
	_ transcript.Store  = (*Store)(nil)
	_ transcript.Raiser = (*Store)(nil)
)

// New returns a store on pool, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	d := pgstate.New(pool, pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: indexes})
	return &Store{db: d, sql: fillAll(d)}
}
