package pgledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A bank books in a table of its own, in the database of the ledger.
type bank struct {
	*pgledger.Ledger
	pool *pgxpool.Pool
}

// A receipt is the result of a booking.
type receipt struct{ Number int }

func newBank(t *testing.T, p *pgxpool.Pool) bank {
	t.Helper()
	pgtest.Exec(t, p, "CREATE TABLE bookings (number integer GENERATED ALWAYS AS IDENTITY, cents integer)")
	return bank{create(t, p, nil), p}
}

// book books in tx.
func (b bank) book(ctx context.Context, tx pgx.Tx, e ledger.Effect) (receipt, error) {
	return pgledger.Tx(ctx, b.Ledger, tx, e, func(ctx context.Context) (r receipt, err error) {
		err = tx.QueryRow(ctx, "INSERT INTO bookings (cents) VALUES (100) RETURNING number").Scan(&r.Number)
		return r, err
	})
}

// booked books in a transaction of its own.
func (b bank) booked(ctx context.Context, e ledger.Effect, o pgx.TxOptions) (r receipt, err error) {
	err = pgx.BeginTxFunc(ctx, b.pool, o, func(tx pgx.Tx) error {
		r, err = b.book(ctx, tx, e)
		return err
	})
	return r, err
}

func (b bank) wantBookings(t *testing.T, want int) {
	t.Helper()
	if got := pgtest.Value[int](t, b.pool, "SELECT count(*) FROM bookings"); got != want {
		t.Errorf("%d bookings, want %d", got, want)
	}
}

// What is rolled back has not happened. What is committed happens once, and each later call returns its result.
func TestTx(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, _ *pgledger.Ledger) {
		b := newBank(t, p)
		e := effect("run", "a", 1)
		tx := begin(t, p, pgx.TxOptions{})
		if _, err := b.book(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wantBookings(t, 0)
		if now := kept(t, b.Ledger, "a"); now.ID != "" {
			t.Errorf("what was rolled back is kept: %+v", now)
		}
		first, err := b.booked(t.Context(), e, pgx.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Adopt(t.Context(), "run", fence(2)); err != nil {
			t.Fatal(err)
		}
		e.Fence = fence(2)
		again, err := b.booked(t.Context(), e, pgx.TxOptions{})
		if err != nil || again != first {
			t.Errorf("the second time the receipt is %+v, want %+v: %v", again, first, err)
		}
		if now := kept(t, b.Ledger, "a"); now.State != ledger.Completed || now.Attempts != 1 {
			t.Errorf("the effect is %+v", now)
		}
		b.wantBookings(t, 1)
	})
}

// A connection that dies before the commit has booked nothing.
func TestTxKilled(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	b := newBank(t, p)
	e := effect("run", "a", 1)
	tx := begin(t, p, pgx.TxOptions{})
	if _, err := b.book(t.Context(), tx, e); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, p, "SELECT pg_terminate_backend($1)", tx.Conn().PgConn().PID())
	if err := tx.Commit(t.Context()); err == nil {
		t.Fatal("a dead connection commits")
	}
	if _, err := b.booked(t.Context(), e, pgx.TxOptions{}); err != nil {
		t.Error(err)
	}
	b.wantBookings(t, 1)
}

// Of two runs with one Key the second one waits for the first one, and gets what it has booked. If the first one is
// rolled back, the second one books.
func TestTxKey(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	b := newBank(t, p)
	for i, id := range []string{"committed", "rolled back"} {
		tx := begin(t, p, pgx.TxOptions{})
		first, err := b.book(t.Context(), tx, keyed("one", id, 1))
		if err != nil {
			t.Fatal(err)
		}
		var second receipt
		other := later(t, p, tx, func() (err error) {
			second, err = b.booked(t.Context(), keyed("two", id, 1), pgx.TxOptions{})
			return err
		})
		if id == "committed" {
			commit(t, tx)
		} else if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-other; err != nil || (second == first) != (id == "committed") {
			t.Errorf("%s: receipts %+v and %+v, %v", id, first, second, err)
		}
		b.wantBookings(t, i+1)
	}
}

// A lower fence books nothing.
func TestTxFenced(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, _ *pgledger.Ledger) {
		b := newBank(t, p)
		if err := b.Adopt(t.Context(), "run", fence(2)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.booked(t.Context(), effect("run", "a", 1), pgx.TxOptions{}); !errors.Is(err, lock.ErrFenced) {
			t.Errorf("a lower fence: %v, want %v", err, lock.ErrFenced)
		}
		b.wantBookings(t, 0)
	})
}

// An Adopt waits for the transaction. Then the effect is Completed.
func TestTxAdopt(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	b := newBank(t, p)
	tx := begin(t, p, pgx.TxOptions{})
	if _, err := b.book(t.Context(), tx, effect("run", "a", 1)); err != nil {
		t.Fatal(err)
	}
	adopted := later(t, p, tx, func() error { return b.Adopt(t.Context(), "run", fence(2)) })
	commit(t, tx)
	if err := <-adopted; err != nil {
		t.Fatal(err)
	}
	if e := kept(t, b.Ledger, "a"); e.State != ledger.Completed {
		t.Errorf("the effect is %s", e.State)
	}
}

// A higher fence adopts the run in the transaction. At a stricter level this could miss an effect, so it is refused.
func TestTxAdopts(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	b := newBank(t, p)
	issue(t, b.Ledger, effect("run", "open", 1))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		_, err := b.booked(t.Context(), effect("run", "a", 2), pgx.TxOptions{IsoLevel: level})
		if !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v, want %v", level, err, ledger.ErrInvalid)
		}
	}
	b.wantBookings(t, 0)
	if e := kept(t, b.Ledger, "open"); e.State != ledger.Issued {
		t.Errorf("the open effect is %s", e.State)
	}
	if _, err := b.booked(t.Context(), effect("run", "a", 2), committed); err != nil {
		t.Fatal(err)
	}
	if e := kept(t, b.Ledger, "open"); e.State != ledger.Unknown {
		t.Errorf("the open effect is %s", e.State)
	}
}

// An effect that is known, and whose result cannot be given back, is not done again.
func TestTxKnown(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	b := newBank(t, p)
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
		"with other numbers": {"", "run", []error{ledger.ErrChanged}},
	} {
		known := issue(t, b.Ledger, keyed(c.run, id, 1))
		if c.state != "" {
			known = finish(t, b.Ledger, known, ledger.Outcome{State: c.state, Redacted: id == "redacted"})
		}
		e := keyed("run", id, 1)
		if id == "with other numbers" {
			e.ArgsSum = "k:2"
		}
		_, err := b.booked(t.Context(), e, pgx.TxOptions{})
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
		}
		if now := kept(t, b.Ledger, id); now.State != known.State || now.Attempts != 1 {
			t.Errorf("%s: the effect is %+v", id, now)
		}
	}
	b.wantBookings(t, 0)
	failed := issue(t, b.Ledger, effect("run", "failed", 1))
	finish(t, b.Ledger, failed, ledger.Outcome{State: ledger.Failed})
	if _, err := b.booked(t.Context(), effect("run", "failed", 1), pgx.TxOptions{}); err != nil {
		t.Error(err)
	}
	b.wantBookings(t, 1)
}

// The error of fn comes back as it is. A result that cannot be kept is an error too.
func TestTxResult(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	declined := errors.New("declined")
	_, err := inTx(t, p, l, func() (int, error) { return 0, declined })
	if err != declined { //nolint:errorlint // the very error
		t.Errorf("got %v, want %v", err, declined)
	}
	_, err = inTx(t, p, l, func() (func(), error) { return func() {}, nil })
	if !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("no JSON: %v, want %v", err, ledger.ErrInvalid)
	}
	_, err = inTx(t, p, l, func() ([]byte, error) { return make([]byte, ledger.MaxDocument), nil })
	if !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("too large: %v, want %v", err, ledger.ErrInvalid)
	}
	if now := kept(t, l, "a"); now.ID != "" {
		t.Errorf("kept: %+v", now)
	}
	for range 2 {
		if r, err := inTx(t, p, l, func() (any, error) { return nil, nil }); r != nil || err != nil {
			t.Errorf("the result null is %v, %v", r, err)
		}
	}
	if now := kept(t, l, "a"); string(now.Result) != "null" {
		t.Errorf("kept: %+v", now)
	}
	e := issue(t, l, effect("run", "of another type", 1))
	finish(t, l, e, ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"text"`)})
	_, err = pgledger.Tx(t.Context(), l, begin(t, p, pgx.TxOptions{}), e,
		func(context.Context) (int, error) { return 1, nil })
	if !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("a result of another type: %v, want %v", err, ledger.ErrInvalid)
	}
	e.ID = ""
	_, err = pgledger.Tx(t.Context(), l, nil, e, func(context.Context) (int, error) { return 1, nil })
	if !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("no id: %v, want %v", err, ledger.ErrInvalid)
	}
}

func inTx[T any](t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger, fn func() (T, error)) (result T, err error) {
	failed := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
		result, err = pgledger.Tx(t.Context(), l, tx, effect("run", "a", 1),
			func(context.Context) (T, error) { return fn() })
		return err
	})
	if err == nil {
		err = failed
	}
	return result, err
}

// The commit of the caller's transaction is durable, although the default is that it is not.
func TestTxDurable(t *testing.T) {
	t.Parallel()
	_, p, l := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	tx := begin(t, p, pgx.TxOptions{})
	if _, err := l.IssueIn(t.Context(), tx, effect("run", "a", 1)); err != nil {
		t.Fatal(err)
	}
	var level string
	if err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&level); err != nil || level != "on" {
		t.Errorf("the transaction commits with %s, %v", level, err)
	}
}

func nothing(context.Context) (int, error) { return 0, nil }

// Times that the driver reads as text have to be in the style of ISO. Binary times are read in any style.
func TestTxDateStyle(t *testing.T) {
	t.Parallel()
	for mode, want := range map[pgx.QueryExecMode]error{
		pgx.QueryExecModeCacheStatement: nil, pgx.QueryExecModeDescribeExec: nil,
		pgx.QueryExecModeExec: ledger.ErrInvalid, pgx.QueryExecModeSimpleProtocol: ledger.ErrInvalid,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			b := newBank(t, pgtest.EmptyPool(t, pgtest.Odd, func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
			}))
			for range 2 {
				if _, err := b.booked(t.Context(), effect("run", "e", 1), pgx.TxOptions{}); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if want == nil {
				b.wantBookings(t, 1)
			} else {
				b.wantBookings(t, 0)
			}
		})
	}
}
