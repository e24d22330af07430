package pgworkflow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// Options configure a [Store], as those of package postgres do. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix      string
	MaxAge      time.Duration // as in workflow.Memory
	FailUnknown bool          // as in workflow.Memory
	Logger      *slog.Logger  // nil means slog.Default()

	// Listen opens a connection on which the store hears what other processes do. If it is nil, the store neither hears
	// them nor tells them.
	Listen func(ctx context.Context) (*pgx.Conn, error)

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *pgprocess.Processes
}

// A Store keeps runs in five tables, and subscriptions in one.
type Store struct {
	*pgprocess.Processes
	*front
	*ears

	alone bool          // the Processes are its own
	turn  atomic.Uint32 // counts claims with limits
}

var (
	_ workflow.Store    = (*Store)(nil)
	_ workflow.Listener = (*Store)(nil)
	_ lock.Beater       = (*Store)(nil)
	_ store.Sweeper     = (*Store)(nil)
	_ lock.Raiser       = (*Store)(nil)
)

// New returns a store on pool, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	d := pgstate.New(pool, pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: indexes})
	f := &front{db: d, sql: fillAll(d, o.FailUnknown), most: o.MaxAge, texts: new(sync.Map)}
	s := &Store{
		Processes: cmp.Or(o.Processes, pgprocess.New(d)), front: f, ears: newEars(f, o), alone: o.Processes == nil,
	}
	f.note = func(_ context.Context, notes ...workflow.Note) error {
		s.tell(notes...)
		return nil
	}
	return s
}

// A front is the part of a store that needs no ownership, on a pool or in a transaction of the caller.
type front struct {
	db   *pgstate.DB
	sql  *queries
	most time.Duration // a run is kept
	note func(ctx context.Context, notes ...workflow.Note) error
	conn *pgx.Conn // of the transaction of the caller, if it is in one

	texts    *sync.Map // of statements of entries, by form
	counting bool      // how many outcomes the journal has got
}

// error returns a verdict as it is, and any other error with the operation and its run.
func (f *front) error(ctx context.Context, op, run string, err error) error {
	if store.IsVerdict(err) {
		return err
	}
	return f.db.ErrorOf(ctx, "workflow: "+op, run, err)
}

// A call is a statement, with what reads its rows.
type call struct {
	sql  string
	args []any
	read func(pgx.Rows) error
}

// pipe sends calls in one round trip and one transaction. It may be part of a [pgstate.DB.Answered].
func (f *front) pipe(ctx context.Context, calls []call) error {
	if len(calls) == 1 {
		rows, err := f.db.Query(ctx, calls[0].sql, calls[0].args...)
		if err != nil {
			return err
		}
		return calls[0].read(rows)
	}
	var b pgx.Batch
	for _, c := range calls {
		b.Queue(c.sql, c.args...).Query(c.read)
	}
	return f.db.SendBatch(ctx, &b).Close()
}

// each returns what reads rows into dst, and calls got after each.
func each(got func(), dst ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, dst, func() error {
			got()
			return nil
		})
		return err
	}
}

// tries bounds how often a statement is sent again because its run has changed meanwhile.
const tries = 100

// changing is the error after so many tries.
func changing(what string) error { return fmt.Errorf("the %s changes all the time", what) }

// document returns doc as text, which every mode of the driver sends alike; nil if there is no document.
func document(doc []byte) *string {
	if doc == nil {
		return nil
	}
	text := string(doc)
	return &text
}

// orNull returns the document null for nil.
func orNull(doc []byte) string {
	if doc == nil {
		return "null"
	}
	return string(doc)
}
