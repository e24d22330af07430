package orchestrator_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A bookkeeper books in a database, in one transaction with the effect.
type bookkeeper struct {
	ledger ledger.Ledger

	// book adds a booking and calls before right before the commit.
	book  func(ctx context.Context, e ledger.Effect, what string, before func()) (string, error)
	count func(t *testing.T) int
}

func onSQLiteLedger(t *testing.T) bookkeeper {
	db, err := sql.Open("sqlite", inMemory(t, testenv.SQLite(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	l := sqliteledger.New(db, nil)
	for _, text := range []string{l.Schema(), "CREATE TABLE bookings (what TEXT)"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return bookkeeper{
		l,
		func(ctx context.Context, e ledger.Effect, what string, before func()) (string, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return "", err
			}
			defer tx.Rollback()
			receipt, err := sqliteledger.Tx(ctx, l, tx, e, func(ctx context.Context) (string, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO bookings VALUES (?)", what)
				return "booked " + what, err
			})
			if before(); err != nil {
				return "", err
			}
			return receipt, tx.Commit()
		},
		func(t *testing.T) (n int) {
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM bookings").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}
}

func onPostgresLedger(t *testing.T) bookkeeper {
	pool := testenv.Postgres(t)
	l := pgledger.New(pool, nil)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE bookings (what text)"); err != nil {
		t.Fatal(err)
	}
	return bookkeeper{
		l,
		func(ctx context.Context, e ledger.Effect, what string, before func()) (receipt string, err error) {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
				receipt, err = pgledger.Tx(ctx, l, tx, e, func(ctx context.Context) (string, error) {
					_, err := tx.Exec(ctx, "INSERT INTO bookings VALUES ($1)", what)
					return "booked " + what, err
				})
				before()
				return err
			})
			return receipt, err
		},
		func(t *testing.T) (n int) {
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM bookings").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}
}

var errRollback = errors.New("the process dies before the commit")

// Database work in the transaction of its effect happens exactly once: the process dies before the commit, or after it,
// and the run goes on elsewhere.
func TestEffectInTransaction(t *testing.T) {
	for name, open := range map[string]func(*testing.T) bookkeeper{
		"sqlite": onSQLiteLedger, "postgres": onPostgresLedger,
	} {
		for _, key := range []string{"", "order 7"} {
			for when, first := range map[string]int{"before the commit": 0, "after the commit": 1} {
				t.Run(fmt.Sprintf("%s, key %q, %s", name, key, when), func(t *testing.T) {
					b := open(t)
					s := shop{World: newWorld(), Ledger: b.ledger, Vendor: new(vendor)}
					book := func(before, after func()) Def {
						return single(func(ctx context.Context, t *Turn) error {
							o := &orchestrator.OnceOptions[string]{Key: key, Args: t.Input.Text}
							e, err := orchestrator.EffectOf(t, "book", o)
							if err != nil {
								return err
							}
							receipt, err := b.book(ctx, e, t.Input.Text, before)
							after()
							t.State.Said = append(t.State.Said, receipt)
							return err
						})
					}
					s.Crash(t, func(die func()) Def {
						if first == 0 {
							return book(func() { die(); panic(errRollback) }, nil)
						}
						return book(func() {}, die)
					}, Input{Text: "shoes"})
					if n := b.count(t); n != first {
						t.Fatalf("%d bookings before the resume", n)
					}
					res, err := s.Start(t, book(func() {}, func() {}), Options{}).Resume(t.Context(), "s", nil)
					if err != nil {
						t.Fatal(err)
					}
					wantSaid(t, res.State, "booked shoes")
					if e := s.Effect(t); b.count(t) != 1 || e.State != ledger.Completed || e.Name != "book" ||
						e.Session != "s" {
						t.Errorf("%d bookings, %+v", b.count(t), e)
					}
				})
			}
		}
	}
}

// EffectOf takes the place of its effect, as Once does, and works in a Turn made by hand.
func TestEffectOf(t *testing.T) {
	s := newShop()
	bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
		if _, err := orchestrator.EffectOf[string](t, "pay", nil); err != nil {
			return err
		}
		_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
		return err
	}), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, ledger.ErrRepeated)

	b := onSQLiteLedger(t)
	e, err := orchestrator.EffectOf(new(Turn), "book", &orchestrator.OnceOptions[string]{Key: "7"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.book(t.Context(), e, "shoes", func() {}); got != "booked shoes" || err != nil {
		t.Errorf("by hand: %q, %v", got, err)
	}
	other, err := orchestrator.EffectOf(new(Turn), "book", &orchestrator.OnceOptions[string]{Key: "7", Args: 1})
	if err != nil || other.ID != e.ID || other.ArgsSum == e.ArgsSum {
		t.Errorf("by hand with other arguments: %+v, %v", other, err)
	}
	_, err = orchestrator.EffectOf[string](new(Turn), "", nil)
	wantErr(t, err, ledger.ErrInvalid)
}
