// Package sqlite_test runs over all contracts what is the same for each of them on SQLite: how a file has to be opened,
// what another process sees, calls that are cut off, statements that lose what they rest on.
package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// contracts are the rows of the table, over which the cases loop.
var contracts = []contract{turns, runs, effects, entries, items, chunks, spoken, flows}

// A contract says what the cases have to know of the store of one contract.
type contract struct {
	name   string
	open   func(db *sql.DB, o options) subject
	tables []string
	// longest is the longest end of a name in the database.
	longest string

	// verdicts are errors that a store returns only if it has read the database.
	verdicts []error
	missing  []missing
	// unreachable is the suite of a store that cannot be reached.
	unreachable func(t *testing.T, s subject)

	// fill adds the rows 0 to ?1 - 1.
	fill string
	// plans are the indexes by which statements find their rows, by what these statements have in common. scans are
	// such texts of statements that read a whole table.
	plans map[string]string
	scans []string
	// lists returns all that reads many rows, of a store with 1000 rows.
	lists func(t *testing.T, s subject) []list
	sweep sweep
	// whole count rows that are half-written.
	whole []string

	convicts   map[string]broken
	violations func(ctx context.Context, open func() subject, clause string) map[string]error
	// statements are what calls execute, in their order, after the store was used.
	statements func(t *testing.T, s subject) []executed
	// torn is what a disk has broken.
	torn torn

	// killed settles one thing after the other, and tells of each. check makes a check of what is there after the
	// process was killed: last is the last thing that it told of.
	killed func(db *sql.DB, say func(...any)) error
	check  func(t *testing.T, s subject, db *sql.DB) func(last string)
	// contend is the work of one of several processes, and processes checks what they have done.
	contend   func(db *sql.DB, say func(any)) error
	processes func(t *testing.T, s subject, db *sql.DB, dsn string)
}

// options are the options of any store. age is how long it keeps what is over.
type options struct {
	prefix string
	age    time.Duration
}

// A store is a store of any contract.
type subject interface {
	Schema() string

	// all calls every method once, about something new, and returns their errors by name.
	all(ctx context.Context) map[string]error
	// ready prepares calls, each of which succeeds if it is made once, in this order.
	ready(t *testing.T) []call
	// cut prepares the n-th call that is cut off.
	cut(t *testing.T, db *sql.DB, n int) cut
}

type call struct {
	reads bool
	do    func(ctx context.Context) error
}

// A cut is a call that is cut off. now tells what there is, which is before or after; it is nil if the cut does not
// tell.
type cut struct {
	do            func(ctx context.Context) error
	before, after string
	now           func() string
}

// A list is a sequence of n rows. touch writes while the list is read.
type list struct {
	what  string
	all   iter.Seq2[string, error]
	n     int
	name  func(i int) string
	touch func(ctx context.Context, i int) error
}

// A sweep forgets some of the rows that fill has added, after spoil has changed them, and leaves others.
type sweep struct {
	spoil string
	stays func(i int) bool
	call  func(ctx context.Context, s subject, limit int) (int, error)
	// limited says that limit bounds how much is forgotten. left counts what is left, and rest what is to be gone.
	limited    bool
	left, rest string
}

// A missing is a statement that takes something away, and what the store then says is missing.
type missing struct {
	name, spoil, says string
	// untouched names the methods of a store in use that do not need what is missing.
	untouched string
}

// A broken is a clause, and pairs of texts: if the second one stands for the first one in the statements of the store,
// the store breaks the clause.
type broken struct {
	clause string
	pairs  []string
}

// An executed is a call, and the first words of the statements that it executes.
type executed struct {
	name, want string
	do         func(ctx context.Context) error
}

// A torn is a document that SQLite itself cannot read.
type torn struct {
	// write writes the i-th of n things, with a document that has this text.
	write func(ctx context.Context, s subject, i int, text string) error
	n, at int
	// check checks what is read, and written, after the document of the thing at was torn.
	check func(t *testing.T, s subject, of torn, path string)
}

func eachContract(t *testing.T, test func(t *testing.T, c contract)) {
	for _, c := range contracts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// create creates the tables, twice, and returns a store on them.
func (c contract) create(tb testing.TB, db *sql.DB, o options) subject {
	tb.Helper()
	s := c.open(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}

// onOne returns a store on a pool of one connection.
func (c contract) onOne(tb testing.TB, o options) (subject, *sql.DB) {
	tb.Helper()
	db := sqlitetest.Open(tb, testenv.SQLite(tb))
	db.SetMaxOpenConns(1)
	return c.create(tb, db, o), db
}

// wantAll shows that every method succeeds. It may be called on any goroutine.
func wantAll(t *testing.T, when string, s subject) {
	t.Helper()
	for method, err := range s.all(t.Context()) {
		if err != nil {
			t.Errorf("%s %s: %v", method, when, err)
		}
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

// wantWhole shows that nothing is half-written.
func (c contract) wantWhole(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, query := range c.whole {
		if n := count(t, db, query); n != 0 {
			t.Errorf("%d are half-written: %s", n, query)
		}
	}
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// yielded returns the first error of a sequence.
func yielded[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// named returns the sequence of the names of what another one yields.
func named[T any](all iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for v, err := range all {
			if !yield(name(v), err) {
				return
			}
		}
	}
}

// damagedIn returns the names that a sequence yields, and those of what is damaged.
func damagedIn(t *testing.T, all iter.Seq2[string, error]) (names, damaged []string) {
	t.Helper()
	for name, err := range all {
		if is[*store.DamagedError](err) {
			damaged = append(damaged, name)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		names = append(names, name)
	}
	return names, damaged
}

func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprintf("nonce-%d", epoch)}
}
