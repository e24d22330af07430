package ledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A shop is a database of a program, with a ledger in it.
type shop struct {
	ledger.Ledger
	begin    func(t *testing.T) *tx
	bookings func(t *testing.T) int
	// strict says that transactions do not see what others commit meanwhile.
	strict bool
}

func (s shop) wantBookings(t *testing.T, want int) {
	t.Helper()
	if n := s.bookings(t); n != want {
		t.Errorf("%d bookings, want %d", n, want)
	}
}

// A tx is a transaction of the program.
type tx struct {
	of               ledger.Ledger
	in               any // a pgx.Tx or a *sql.Tx
	exec             func(ctx context.Context, text string) error
	commit, rollback func() error
	// awaited waits until a session waits for the transaction, where the database tells.
	awaited func()
}

// do is Tx of the database.
func do[T any](
	ctx context.Context, x *tx, e ledger.Effect, fn func(context.Context) (T, error),
) (result T, err error) {
	if l, ok := x.of.(*sqliteledger.Ledger); ok {
		return sqliteledger.Tx(ctx, l, x.in.(*sql.Tx), e, fn)
	}
	return pgledger.Tx(ctx, x.of.(*pgledger.Ledger), x.in.(pgx.Tx), e, fn)
}

// book returns a function that books in the transaction and returns a receipt.
func (x *tx) book(id, receipt string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return receipt, x.exec(ctx, "INSERT INTO bookings (id) VALUES ('"+id+"')")
	}
}

func mustNotRun(t *testing.T) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		t.Error("the function was called")
		return "", nil
	}
}

// onPostgresShop returns a shop whose transactions have the options.
func onPostgresShop(t *testing.T, p *pgxpool.Pool, o pgx.TxOptions) shop {
	t.Helper()
	pgtest.Exec(t, p, "CREATE TABLE bookings (id text)")
	l := onPool(t, p)
	return shop{
		Ledger:   l,
		begin:    func(t *testing.T) *tx { return beginPool(t, l, p, o) },
		bookings: func(t *testing.T) int { return pgtest.Value[int](t, p, "SELECT count(*) FROM bookings") },
	}
}

func beginPool(t *testing.T, l ledger.Ledger, p *pgxpool.Pool, o pgx.TxOptions) *tx {
	t.Helper()
	x := begin(t, p, o)
	return &tx{
		of: l, in: x,
		exec:     func(ctx context.Context, text string) error { _, err := x.Exec(ctx, text); return err },
		commit:   func() error { return x.Commit(t.Context()) },
		rollback: func() error { return x.Rollback(t.Context()) },
		awaited:  func() { pgtest.AwaitBlocked(t, p, x) },
	}
}

// onFileShop returns a shop with a ledger on db. own is the handle of the program.
func onFileShop(t *testing.T, db, own *sql.DB) shop {
	t.Helper()
	sqlitetest.Exec(t, db, "CREATE TABLE bookings (id TEXT)")
	l := onFile(t, db, nil)
	return shop{
		Ledger: l,
		begin:  func(t *testing.T) *tx { return beginFile(t, l, own) },
		bookings: func(t *testing.T) (n int) {
			want(t, own.QueryRowContext(t.Context(), "SELECT count(*) FROM bookings").Scan(&n), nil)
			return n
		},
	}
}

func beginFile(t *testing.T, l ledger.Ledger, db *sql.DB) *tx {
	t.Helper()
	x, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Rollback() })
	return &tx{
		of: l, in: x,
		exec:   func(ctx context.Context, text string) error { _, err := x.ExecContext(ctx, text); return err },
		commit: x.Commit, rollback: x.Rollback, awaited: func() {},
	}
}

// handles opens a file for a ledger and for the program, whose own transactions begin as writers.
func handles(t *testing.T, own bool) shop {
	t.Helper()
	dsn := testenv.SQLite(t)
	db := sqlitetest.Open(t, dsn)
	if own {
		return onFileShop(t, db, sqlitetest.Open(t, dsn+"&_txlock=immediate"))
	}
	return onFileShop(t, db, db)
}

// eachShop runs a test at each default level of PostgreSQL, and on each handle of a file.
func eachShop(t *testing.T, test func(t *testing.T, s shop)) {
	t.Parallel()
	for _, level := range levels {
		t.Run("postgres/"+level, func(t *testing.T) {
			t.Parallel()
			s := onPostgresShop(t, pgtest.EmptyPool(t, pgtest.Isolation(level)), pgx.TxOptions{})
			s.strict = level != levels[0]
			test(t, s)
		})
	}
	for name, own := range map[string]bool{"ledger's handle": false, "own handle": true} {
		t.Run("sqlite/"+name, func(t *testing.T) {
			t.Parallel()
			test(t, handles(t, own))
		})
	}
}

// The booking and the note that it was made commit together, or not at all. Each later call returns the result.
func TestTx(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		e := effect("run", "a", 1)
		x := s.begin(t)
		got, err := do(t.Context(), x, e, x.book("a", "receipt"))
		if err != nil || got != "receipt" {
			t.Fatal(got, err)
		}
		want(t, x.rollback(), nil)
		s.wantBookings(t, 0)
		if kept(t, s, "a").ID != "" {
			t.Error("an effect is left of what was rolled back")
		}
		for i := range 3 {
			x := s.begin(t)
			fn := mustNotRun(t)
			if i == 0 {
				fn = x.book("a", "receipt")
			}
			got, err := do(t.Context(), x, e, fn)
			if err != nil || got != "receipt" {
				t.Fatal(got, err)
			}
			want(t, x.commit(), nil)
			if i == 1 {
				e.Fence = fence(2)
				want(t, s.Adopt(t.Context(), "run", e.Fence), nil)
			}
		}
		s.wantBookings(t, 1)
		if e := kept(t, s, "a"); e.State != ledger.Completed || string(e.Result) != `"receipt"` || e.Attempts != 1 {
			t.Errorf("kept: %+v", e)
		}
		e.Attempts = 1
		now, issued, err := s.Issue(t.Context(), e, true)
		if err != nil || issued || now.State != ledger.Completed {
			t.Errorf("Issue after Tx: %+v, %t, %v", now, issued, err)
		}
	})
}

// An error of the function is returned as it is. If the transaction is committed all the same, the effect is in doubt.
func TestTxFails(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		declined := errors.New("declined")
		decline := func(context.Context) (string, error) { return "x", declined }
		for _, end := range []func(x *tx) error{
			func(x *tx) error { return x.rollback() }, func(x *tx) error { return x.commit() },
		} {
			if kept(t, s, "a").ID != "" {
				t.Error("an effect is left")
			}
			x := s.begin(t)
			_, err := do(t.Context(), x, effect("run", "a", 1), decline)
			if err != declined { //nolint:errorlint // the error is returned as it is
				t.Error(err)
			}
			want(t, end(x), nil)
		}
		_, err := do(t.Context(), s.begin(t), effect("run", "a", 1), mustNotRun(t))
		want(t, err, ledger.ErrInDoubt)
	})
}

// What has Failed is done anew.
func TestTxAnew(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		failed := issue(t, s, effect("run", "a", 1))
		finish(t, s, failed, ledger.Outcome{State: ledger.Failed, Error: "declined"})
		x := s.begin(t)
		got, err := do(t.Context(), x, effect("run", "a", 1), x.book("a", "receipt"))
		want(t, errors.Join(err, x.commit()), nil)
		e := kept(t, s, "a")
		if got != "receipt" || e.State != ledger.Completed || e.Attempts != 2 || e.Error != "" {
			t.Errorf("%q, kept: %+v", got, e)
		}
		s.wantBookings(t, 1)
	})
}

// An effect that is known, and whose result cannot be given back, is not done again. A lower fence does nothing.
func TestTxRefuses(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		want(t, s.Adopt(t.Context(), "high", fence(2)), nil)
		for id, c := range map[string]struct {
			state ledger.State
			run   string
			want  []error
		}{
			"skipped":            {ledger.Skipped, "run", []error{ledger.ErrSkipped}},
			"redacted":           {ledger.Completed, "run", []error{ledger.ErrRedacted}},
			"unknown":            {ledger.Unknown, "run", []error{ledger.ErrInDoubt}},
			"issued":             {"", "run", []error{ledger.ErrInDoubt}},
			"issued to another":  {"", "other", []error{ledger.ErrInDoubt, lock.ErrHeld}},
			"with other numbers": {ledger.Completed, "run", []error{ledger.ErrChanged}},
			"low":                {"", "", []error{lock.ErrFenced}},
			"":                   {"", "", []error{ledger.ErrInvalid}},
		} {
			e := keyed("run", id, 1)
			if c.run == "" {
				e.RunID = "high"
			} else {
				known := issue(t, s, keyed(c.run, id, 1))
				if c.state != "" {
					finish(t, s, known, ledger.Outcome{State: c.state, Redacted: id == "redacted"})
				}
			}
			if id == "with other numbers" {
				e.ArgsSum = "k:2"
			}
			before := timeless(kept(t, s, id))
			x := s.begin(t)
			_, err := do(t.Context(), x, e, mustNotRun(t))
			for _, target := range c.want {
				want(t, err, target)
			}
			if !slices.Contains(c.want, lock.ErrHeld) && errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s: %v", id, err)
			}
			want(t, x.rollback(), nil)
			if after := timeless(kept(t, s, id)); after != before {
				t.Errorf("%s: the effect was %s, and is %s", id, before, after)
			}
		}
		s.wantBookings(t, 0)
	})
}

func timeless(e ledger.Effect) string {
	e.Age = 0
	return fmt.Sprintf("%+v", e)
}

// A result that cannot be kept, or that does not read back, is invalid.
func TestTxResult(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		e := effect("run", "a", 1)
		wantInvalidResult(t, s, e, make(chan int))
		wantInvalidResult(t, s, e, func() {})
		wantInvalidResult(t, s, e, strings.Repeat("x", ledger.MaxDocument))
		wantInvalidResult(t, s, e, make([]byte, ledger.MaxDocument))
		wantInvalidResult(t, s, e, "\x00")
		wantInvalidResult[fmt.Stringer](t, s, e, time.Second)
		for range 2 {
			x := s.begin(t)
			got, err := do(t.Context(), x, e, func(context.Context) (*int, error) { return nil, nil })
			if got != nil || err != nil {
				t.Error(got, err)
			}
			want(t, x.commit(), nil)
		}
		if now := kept(t, s, "a"); string(now.Result) != "null" {
			t.Errorf("kept: %+v", now)
		}
		e = issue(t, s, effect("run", "of another type", 1))
		finish(t, s, e, ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"text"`)})
		_, err := do(t.Context(), s.begin(t), e, func(context.Context) (int, error) { return 1, nil })
		want(t, err, ledger.ErrInvalid)
	})
}

func wantInvalidResult[T any](t *testing.T, s shop, e ledger.Effect, result T) {
	t.Helper()
	x := s.begin(t)
	_, err := do(t.Context(), x, e, func(context.Context) (T, error) { return result, nil })
	want(t, err, ledger.ErrInvalid)
	want(t, x.rollback(), nil)
	if kept(t, s, e.ID).ID != "" {
		t.Error("an effect is left")
	}
}

// Runs do what has one Key, at once and in two transactions. One waits for the other, and there is one booking.
func TestTxTwoRuns(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		if s.strict {
			t.Skip("a strict transaction is refused, and rolled back")
		}
		for i := range 10 {
			id := fmt.Sprint("refund ", i)
			var wg sync.WaitGroup
			start := make(chan struct{})
			for _, run := range []string{"one", "two", "three"} {
				wg.Go(func() {
					<-start
					x := s.begin(t)
					got, err := do(t.Context(), x, keyed(run, id, 1), x.book(id, "receipt"))
					if err != nil || got != "receipt" {
						t.Errorf("%s: %q, %v", run, got, errors.Join(err, x.rollback()))
						return
					}
					want(t, x.commit(), nil)
				})
			}
			close(start)
			wg.Wait()
			s.wantBookings(t, i+1)
		}
	})
}

// Of two runs with one Key the second one waits for the first one, and gets what it has booked. If the first one is
// rolled back, the second one books.
func TestTxKey(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		if s.strict {
			t.Skip("a strict transaction is refused, and rolled back")
		}
		for i, id := range []string{"committed", "rolled back"} {
			x := s.begin(t)
			first, err := do(t.Context(), x, keyed("one", id, 1), x.book(id, "receipt of one"))
			want(t, err, nil)
			second, other := "", make(chan error, 1)
			go func() {
				x := s.begin(t)
				var err error
				second, err = do(t.Context(), x, keyed("two", id, 1), x.book(id, "receipt of two"))
				other <- errors.Join(err, x.commit())
			}()
			x.awaited()
			if id == "committed" {
				want(t, x.commit(), nil)
			} else {
				want(t, x.rollback(), nil)
			}
			if err := <-other; err != nil || (second == first) != (id == "committed") {
				t.Errorf("%s: %s and %s, %v", id, first, second, err)
			}
			s.wantBookings(t, i+1)
		}
	})
}

// While the transaction is open, Adopt waits. After the commit it finds the effect Completed.
func TestTxAdopt(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		x := s.begin(t)
		adopted := make(chan error, 1)
		_, err := do(t.Context(), x, effect("run", "a", 1), func(ctx context.Context) (string, error) {
			ended, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			want(t, s.Adopt(ended, "run", fence(2)), context.DeadlineExceeded)
			go func() { adopted <- s.Adopt(t.Context(), "run", fence(2)) }()
			return x.book("a", "receipt")(ctx)
		})
		want(t, err, nil)
		x.awaited()
		select {
		case err := <-adopted:
			t.Fatalf("Adopt did not wait: %v", err)
		default:
		}
		want(t, x.commit(), nil)
		want(t, <-adopted, nil)
		if e := kept(t, s, "a"); e.State != ledger.Completed {
			t.Errorf("kept: %+v", e)
		}
		_, err = do(t.Context(), s.begin(t), effect("run", "b", 1), mustNotRun(t))
		want(t, err, lock.ErrFenced)
		s.wantBookings(t, 1)
	})
}

// If ctx ends, Tx says why.
func TestTxCancelled(t *testing.T) {
	eachShop(t, func(t *testing.T, s shop) {
		ctx, cancel := context.WithCancelCause(t.Context())
		x := s.begin(t)
		_, err := do(ctx, x, effect("run", "a", 1), func(context.Context) (string, error) {
			cancel(errStopped)
			return "x", nil
		})
		want(t, err, errStopped)
		_, err = do(ctx, x, effect("run", "b", 1), mustNotRun(t))
		want(t, err, errStopped)
		_ = x.rollback() // of a connection that may be closed
		if ids, _ := list(t, s, ledger.Query{}); len(ids) != 0 {
			t.Errorf("%q are left", ids)
		}
	})
}

// A connection that dies before the commit has booked nothing.
func TestPostgresTxKilled(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := onPostgresShop(t, p, pgx.TxOptions{})
	for i, dies := range []bool{true, false} {
		x := s.begin(t)
		_, err := do(t.Context(), x, effect("run", "a", 1), x.book("a", "receipt"))
		want(t, err, nil)
		if dies {
			pgtest.Exec(t, p, "SELECT pg_terminate_backend($1)", x.in.(pgx.Tx).Conn().PgConn().PID())
		}
		if err := x.commit(); (err != nil) != dies {
			t.Errorf("the connection has died: %t, and its commit returns %v", dies, err)
		}
		s.wantBookings(t, i)
	}
}

// A higher fence adopts the run in the transaction. At a stricter level this could miss an effect, so it is refused.
func TestPostgresTxAdopts(t *testing.T) {
	t.Parallel()
	s := onPostgresShop(t, pgtest.EmptyPool(t), committed)
	issue(t, s, effect("run", "open", 1))
	for i, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable, pgx.ReadCommitted} {
		x := s.begin(t)
		want(t, x.exec(t.Context(), "SET TRANSACTION ISOLATION LEVEL "+string(level)), nil)
		_, err := do(t.Context(), x, effect("run", "a", 2), x.book("a", "receipt"))
		state := ledger.Issued
		if level == pgx.ReadCommitted {
			want(t, errors.Join(err, x.commit()), nil)
			state = ledger.Unknown
		} else {
			want(t, err, ledger.ErrInvalid)
			want(t, x.rollback(), nil)
		}
		s.wantBookings(t, i/2)
		if e := kept(t, s, "open"); e.State != state {
			t.Errorf("%s: the open effect is %s", level, e.State)
		}
	}
}

// The commit of the caller's transaction is durable, although the default is that it is not.
func TestPostgresTxDurable(t *testing.T) {
	t.Parallel()
	_, p, l := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	x := begin(t, p, pgx.TxOptions{})
	_, err := pgledger.Tx(t.Context(), l, x, effect("run", "a", 1), nothing)
	want(t, err, nil)
	var level string
	if want(t, x.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&level), nil); level != "on" {
		t.Errorf("the transaction commits with %s", level)
	}
}

func nothing(context.Context) (int, error) { return 0, nil }

// Times that the driver reads as text have to be in the style of ISO. Binary times are read in any style.
func TestPostgresTxDateStyle(t *testing.T) {
	t.Parallel()
	for mode, target := range map[pgx.QueryExecMode]error{
		pgx.QueryExecModeCacheStatement: nil, pgx.QueryExecModeDescribeExec: nil,
		pgx.QueryExecModeExec: ledger.ErrInvalid, pgx.QueryExecModeSimpleProtocol: ledger.ErrInvalid,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := onPostgresShop(t, pgtest.EmptyPool(t, pgtest.Odd, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
			}), pgx.TxOptions{})
			for range 2 {
				x := s.begin(t)
				_, err := do(t.Context(), x, effect("run", "e", 1), x.book("e", "receipt"))
				want(t, err, target)
				if err == nil {
					want(t, x.commit(), nil)
				}
			}
			if target == nil {
				s.wantBookings(t, 1)
			} else {
				s.wantBookings(t, 0)
			}
		})
	}
}

// The transaction may have the only connection, and may be the first use of the ledger.
func TestSQLiteTxOneConnection(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := onFileShop(t, db, db)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, target := range []error{nil, ledger.ErrSchema} {
		x := s.begin(t)
		if target != nil {
			want(t, x.exec(ctx, "DROP TABLE holdfast_effects"), nil)
		}
		_, err := do(ctx, x, effect("run", "a", 1), x.book("a", "receipt"))
		want(t, err, target)
		if err == nil {
			want(t, x.commit(), nil)
		} else {
			want(t, x.rollback(), nil)
		}
	}
	s.wantBookings(t, 1)
}

// A deferred transaction waits for a writer if it has not read. If it has read, it is refused at once.
func TestSQLiteTxDeferred(t *testing.T) {
	t.Parallel()
	s := handles(t, false)
	read := func() *tx {
		t.Helper()
		x := s.begin(t)
		var n int
		want(t, x.in.(*sql.Tx).QueryRowContext(t.Context(), "SELECT count(*) FROM bookings").Scan(&n), nil)
		return x
	}
	fastest := time.Hour
	refused := func(x *tx) {
		t.Helper()
		began := time.Now()
		_, err := do(t.Context(), x, effect("run", "a", 1), mustNotRun(t))
		want(t, err, ledger.ErrRefused)
		fastest = min(fastest, time.Since(began))
		want(t, x.rollback(), nil)
	}
	x := read()
	issue(t, s, effect("run", "another", 1))
	refused(x)

	writer := s.begin(t)
	_, err := do(t.Context(), writer, effect("run", "b", 1), writer.book("b", "receipt"))
	want(t, err, nil)
	for range 3 { // on a busy machine one of them is refused late
		refused(read())
	}
	if fastest > 3*time.Second {
		t.Errorf("refused after %v", fastest)
	}

	x = s.begin(t)
	done := make(chan error, 1)
	go func() {
		_, err := do(t.Context(), x, effect("run", "a", 1), x.book("a", "receipt"))
		done <- errors.Join(err, x.commit())
	}()
	want(t, writer.commit(), nil)
	want(t, <-done, nil)
	s.wantBookings(t, 2)
}

// A transaction that would not be durable, or that is in another file, is refused.
func TestSQLiteTxElsewhere(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	l := onFile(t, sqlitetest.Open(t, dsn), nil)
	issue(t, l, effect("run", "used", 1))
	for name, elsewhere := range map[string]string{
		"synchronous is 1":            strings.Replace(dsn, "synchronous(FULL)", "synchronous(NORMAL)", 1),
		"the transaction is in file ": testenv.SQLite(t),
		"journal_mode is delete":      strings.Replace(testenv.SQLite(t), "journal_mode(WAL)", "journal_mode(DELETE)", 1),
	} {
		db := sqlitetest.Open(t, elsewhere)
		sqlitetest.Exec(t, db, l.Schema())
		x := beginFile(t, l, db)
		_, err := do(t.Context(), x, effect("run", "a", 1), mustNotRun(t))
		if !errors.Is(err, sqlitestore.ErrDSN) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %v that says %q", err, sqlitestore.ErrDSN, name)
		}
		want(t, x.rollback(), nil)
	}
}

// If the file was removed, a commit would be lost.
func TestSQLiteTxFileGone(t *testing.T) {
	t.Parallel()
	path := sqlitetest.File(t)
	db := sqlitetest.Open(t, sqlitetest.DSN(path))
	l := onFile(t, db, nil)
	issue(t, l, effect("run", "used", 1))
	x := beginFile(t, l, db)
	want(t, os.Remove(path), nil)
	_, err := do(t.Context(), x, effect("run", "a", 1), mustNotRun(t))
	want(t, err, ledger.ErrDamaged)
	want(t, x.rollback(), nil)
}

// A Tx is few statements.
func TestSQLiteTxStatements(t *testing.T) {
	t.Parallel()
	sent, db := sqlitetest.Tamper(t, testenv.SQLite(t))
	s := onFileShop(t, db, db)
	issue(t, s, effect("run", "used", 1))
	sent.Executed()
	x := s.begin(t)
	_, err := do(t.Context(), x, effect("tx", "tx", 1), x.book("tx", "receipt"))
	want(t, errors.Join(err, x.commit()), nil)
	if got, want := sent.Words(), "BEGIN INSERT UPDATE SELECT SELECT INSERT INSERT UPDATE COMMIT"; got != want {
		t.Errorf("Tx executes %s, want %s", got, want)
	}
}
