package sqliteledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// book returns a function that books in the transaction and returns a receipt.
func book(tx *sql.Tx, id string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO bookings (id) VALUES (?1)", id)
		return "receipt of " + id, err
	}
}

func mustNotRun(t *testing.T) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		t.Error("the function was called")
		return "", nil
	}
}

// A shop is a database of a program, with a ledger in the same file.
type shop struct {
	*sqliteledger.Ledger
	db *sql.DB // of the program
}

// openShop returns a shop. own says that the program has a *sql.DB of its own, whose transactions begin as writers.
func openShop(t *testing.T, own bool) shop {
	t.Helper()
	dsn := testenv.SQLite(t)
	db := sqlitetest.Open(t, dsn)
	s := shop{create(t, db, nil), db}
	if own {
		s.db = sqlitetest.Open(t, dsn+"&_txlock=immediate")
	}
	sqlitetest.Exec(t, db, "CREATE TABLE bookings (id TEXT)")
	return s
}

func (s shop) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

func (s shop) wantBookings(t *testing.T, want int) {
	t.Helper()
	var n int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM bookings").Scan(&n); err != nil || n != want {
		t.Errorf("%d bookings, %v, want %d", n, err, want)
	}
}

func onEachHandle(t *testing.T, test func(t *testing.T, s shop)) {
	t.Run("ledger's handle", func(t *testing.T) { test(t, openShop(t, false)) })
	t.Run("own handle", func(t *testing.T) { test(t, openShop(t, true)) })
}

// The booking and the note that it was made commit together, or not at all.
func TestTx(t *testing.T) {
	onEachHandle(t, func(t *testing.T, s shop) {
		e := effect("run", "a")
		tx := s.begin(t)
		got, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, e, book(tx, "a"))
		if err != nil || got != "receipt of a" {
			t.Fatal(got, err)
		}
		want(t, tx.Rollback(), nil)
		s.wantBookings(t, 0)
		if kept(t, s, "a") != nil {
			t.Error("an effect is left of what was rolled back")
		}
		for i := range 3 {
			tx, fn := s.begin(t), mustNotRun(t)
			if i == 0 {
				fn = book(tx, "a")
			}
			got, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, e, fn)
			if err != nil || got != "receipt of a" {
				t.Fatal(got, err)
			}
			want(t, tx.Commit(), nil)
		}
		s.wantBookings(t, 1)
		if e := kept(t, s, "a"); e.State != ledger.Completed || string(e.Result) != `"receipt of a"` || e.Attempts != 1 {
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
	onEachHandle(t, func(t *testing.T, s shop) {
		declined := errors.New("declined")
		decline := func(context.Context) (string, error) { return "x", declined }
		tx := s.begin(t)
		got, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "a"), decline)
		if got != "" || err != declined { //nolint:errorlint // the error is returned as it is
			t.Error(got, err)
		}
		want(t, tx.Rollback(), nil)
		if kept(t, s, "a") != nil {
			t.Error("an effect is left")
		}
		tx = s.begin(t)
		_, err = sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "a"), decline)
		want(t, err, declined)
		want(t, tx.Commit(), nil)
		tx = s.begin(t)
		_, err = sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "a"), mustNotRun(t))
		want(t, err, ledger.ErrInDoubt)
		want(t, tx.Rollback(), nil)
	})
}

// What has Failed is done anew.
func TestTxAnew(t *testing.T) {
	onEachHandle(t, func(t *testing.T, s shop) {
		finish(t, s, issue(t, s, effect("run", "a")), ledger.Outcome{State: ledger.Failed, Error: "declined"})
		tx := s.begin(t)
		got, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "a"), book(tx, "a"))
		want(t, errors.Join(err, tx.Commit()), nil)
		e := kept(t, s, "a")
		if got != "receipt of a" || e.State != ledger.Completed || e.Attempts != 2 || e.Error != "" {
			t.Errorf("%q, kept: %+v", got, e)
		}
		s.wantBookings(t, 1)
	})
}

// Tx does not call the function unless it has issued the effect itself.
func TestTxRefuses(t *testing.T) {
	onEachHandle(t, func(t *testing.T, s shop) {
		unknown := ledger.Outcome{State: ledger.Unknown}
		skipped := ledger.Outcome{State: ledger.Skipped}
		issue(t, s, effect("run", "issued"))
		finish(t, s, issue(t, s, effect("run", "unknown")), unknown)
		finish(t, s, issue(t, s, effect("run", "skipped")), skipped)
		finish(t, s, issue(t, s, effect("run", "changed")), paid)
		redacted := paid
		redacted.Redacted = true
		finish(t, s, issue(t, s, effect("run", "redacted")), redacted)
		issue(t, s, effect("other", "of another run"))
		low := effect("run", "low")
		want(t, s.Adopt(t.Context(), "high", fence(2)), nil)
		low.RunID = "high"
		changed := effect("run", "changed")
		changed.ArgsSum = "k:2"
		for _, c := range []struct {
			e    ledger.Effect
			want []error
		}{
			{effect("run", "issued"), []error{ledger.ErrInDoubt}},
			{effect("run", "unknown"), []error{ledger.ErrInDoubt}},
			{effect("run", "skipped"), []error{ledger.ErrSkipped}},
			{effect("run", "redacted"), []error{ledger.ErrRedacted}},
			{effect("run", "of another run"), []error{ledger.ErrInDoubt, lock.ErrHeld}},
			{changed, []error{ledger.ErrChanged}},
			{low, []error{lock.ErrFenced}},
			{ledger.Effect{ID: "bad"}, []error{ledger.ErrInvalid}},
		} {
			tx := s.begin(t)
			_, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, c.e, mustNotRun(t))
			for _, target := range c.want {
				want(t, err, target)
			}
			if !slices.Contains(c.want, lock.ErrHeld) && errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s: %v", c.e.ID, err)
			}
			want(t, tx.Rollback(), nil)
		}
	})
}

// A result that cannot be kept, or that does not read back, is invalid.
func TestTxResult(t *testing.T) {
	s := openShop(t, true)
	e := effect("run", "a")
	wantInvalidResult(t, s, e, make(chan int))
	wantInvalidResult(t, s, e, strings.Repeat("x", ledger.MaxDocument))
	wantInvalidResult(t, s, e, "\x00")
	wantInvalidResult[fmt.Stringer](t, s, e, time.Second)
	tx := s.begin(t)
	got, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, e, func(context.Context) (*int, error) { return nil, nil })
	if got != nil || err != nil {
		t.Error(got, err)
	}
	want(t, tx.Commit(), nil)
}

func wantInvalidResult[T any](t *testing.T, s shop, e ledger.Effect, result T) {
	t.Helper()
	tx := s.begin(t)
	_, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, e, func(context.Context) (T, error) { return result, nil })
	want(t, err, ledger.ErrInvalid)
	want(t, tx.Rollback(), nil)
	if kept(t, s, e.ID) != nil {
		t.Error("an effect is left")
	}
}

// Two runs do what has one Key, at once and in two transactions. One waits for the other, and there is one booking.
func TestTxTwoRuns(t *testing.T) {
	onEachHandle(t, func(t *testing.T, s shop) {
		for i := range 10 {
			id := fmt.Sprint("refund ", i)
			var wg sync.WaitGroup
			start := make(chan struct{})
			for _, run := range []string{"one", "two", "three"} {
				wg.Go(func() {
					<-start
					e := effect(run, id)
					e.Each, e.Key = "", id
					tx, err := s.db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					defer tx.Rollback()
					got, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, e, book(tx, id))
					if err != nil || got != "receipt of "+id {
						t.Errorf("%s: %q, %v", run, got, err)
						return
					}
					want(t, tx.Commit(), nil)
				})
			}
			close(start)
			wg.Wait()
			s.wantBookings(t, i+1)
		}
	})
}

// While the transaction is open, Adopt waits. After the commit it finds the effect Completed.
func TestTxAdopt(t *testing.T) {
	onEachHandle(t, func(t *testing.T, s shop) {
		e := effect("run", "a")
		tx := s.begin(t)
		adopted := make(chan error, 1)
		_, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, e, func(ctx context.Context) (string, error) {
			ended, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			want(t, s.Adopt(ended, "run", fence(2)), context.DeadlineExceeded)
			go func() { adopted <- s.Adopt(t.Context(), "run", fence(2)) }()
			return book(tx, "a")(ctx)
		})
		want(t, err, nil)
		select {
		case err := <-adopted:
			t.Fatalf("Adopt did not wait: %v", err)
		default:
		}
		want(t, tx.Commit(), nil)
		want(t, <-adopted, nil)
		if e := kept(t, s, "a"); e.State != ledger.Completed {
			t.Errorf("kept: %+v", e)
		}
		tx = s.begin(t)
		_, err = sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "b"), mustNotRun(t))
		want(t, err, lock.ErrFenced)
		want(t, tx.Rollback(), nil)
		s.wantBookings(t, 1)
	})
}

// The transaction may have the only connection, and may be the first use of the ledger.
func TestTxOneConnection(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := shop{create(t, db, nil), db}
	sqlitetest.Exec(t, db, "CREATE TABLE bookings (id TEXT)")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, drop := range []string{"", "DROP TABLE holdfast_effects"} {
		tx := s.begin(t)
		if drop != "" {
			if _, err := tx.ExecContext(ctx, drop); err != nil {
				t.Fatal(err)
			}
		}
		_, err := sqliteledger.Tx(ctx, s.Ledger, tx, effect("run", "a"), book(tx, "a"))
		if drop == "" {
			want(t, errors.Join(err, tx.Commit()), nil)
			continue
		}
		want(t, err, ledger.ErrSchema)
		want(t, tx.Rollback(), nil)
	}
	s.wantBookings(t, 1)
}

// A deferred transaction waits for a writer if it has not read. If it has read, it is refused at once.
func TestTxDeferred(t *testing.T) {
	s := openShop(t, false)
	read := func(tx *sql.Tx) {
		t.Helper()
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM bookings").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(tx *sql.Tx) {
		t.Helper()
		began := time.Now()
		_, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "a"), mustNotRun(t))
		want(t, err, ledger.ErrRefused)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("refused after %v", took)
		}
		want(t, tx.Rollback(), nil)
	}
	tx := s.begin(t)
	read(tx)
	issue(t, s, effect("run", "another"))
	refused(tx)

	writer := s.begin(t)
	_, err := sqliteledger.Tx(t.Context(), s.Ledger, writer, effect("run", "b"), book(writer, "b"))
	want(t, err, nil)
	tx = s.begin(t)
	read(tx)
	refused(tx)

	tx = s.begin(t)
	done := make(chan error, 1)
	go func() {
		_, err := sqliteledger.Tx(t.Context(), s.Ledger, tx, effect("run", "a"), book(tx, "a"))
		done <- errors.Join(err, tx.Commit())
	}()
	want(t, writer.Commit(), nil)
	want(t, <-done, nil)
	s.wantBookings(t, 2)
}

// A transaction that would not be durable, or that is in another file, is refused.
func TestTxElsewhere(t *testing.T) {
	dsn := testenv.SQLite(t)
	l := create(t, sqlitetest.Open(t, dsn), nil)
	issue(t, l, effect("run", "used"))
	for name, elsewhere := range map[string]string{
		"synchronous is 1":            strings.Replace(dsn, "synchronous(FULL)", "synchronous(NORMAL)", 1),
		"the transaction is in file ": testenv.SQLite(t),
		"journal_mode is delete":      strings.Replace(testenv.SQLite(t), "journal_mode(WAL)", "journal_mode(DELETE)", 1),
	} {
		db := sqlitetest.Open(t, elsewhere)
		sqlitetest.Exec(t, db, l.Schema())
		tx, err := db.BeginTx(t.Context(), nil)
		want(t, err, nil)
		_, err = sqliteledger.Tx(t.Context(), l, tx, effect("run", "a"), mustNotRun(t))
		if !errors.Is(err, sqliteledger.ErrDSN) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %v that says %q", err, sqliteledger.ErrDSN, name)
		}
		want(t, tx.Rollback(), nil)
	}
}

// If the file was removed, a commit would be lost.
func TestTxFileGone(t *testing.T) {
	path := sqlitetest.File(t)
	db := sqlitetest.Open(t, sqlitetest.DSN(path))
	l := create(t, db, nil)
	issue(t, l, effect("run", "used"))
	tx, err := db.BeginTx(t.Context(), nil)
	want(t, err, nil)
	want(t, os.Remove(path), nil)
	_, err = sqliteledger.Tx(t.Context(), l, tx, effect("run", "a"), mustNotRun(t))
	want(t, err, ledger.ErrDamaged)
	want(t, tx.Rollback(), nil)
}

// If ctx ends, Tx says why.
func TestTxCancelled(t *testing.T) {
	s := openShop(t, true)
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	tx := s.begin(t)
	_, err := sqliteledger.Tx(ctx, s.Ledger, tx, effect("run", "a"), func(ctx context.Context) (string, error) {
		cancel(reason)
		return "x", nil
	})
	want(t, err, reason)
	_, err = sqliteledger.Tx(ctx, s.Ledger, tx, effect("run", "b"), mustNotRun(t))
	want(t, err, reason)
	want(t, tx.Rollback(), nil)
	if err := readAll(t.Context(), s); err != nil {
		t.Error(err)
	}
}
