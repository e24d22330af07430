package bootdrain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// book is the job of a process that books in a table of its own, with Tx.
const book = "book"

// The points of Tx, in order. At such a point the process is killed, or is stopped. At the point committing it does not
// wait to be killed.
const (
	writeBefore  = "before the function writes"
	writeAfter   = "after the function has written"
	commitBefore = "before COMMIT"
	committing   = "during COMMIT"
	commitAfter  = "after COMMIT"
)

var txPoints = []string{writeBefore, writeAfter, commitBefore, committing, commitAfter}

// bookings is the table of the application. Nothing in it prevents a second booking of one effect.
const bookings = "CREATE TABLE bookings (session TEXT, effect TEXT, receipt TEXT)"

// A till books in the database of a ledger.
type till struct {
	ledger ledger.Ledger
	book   func(ctx context.Context, e ledger.Effect, receipt string, at func(point string)) (string, error)
	read   func(ctx context.Context, session string) (booked []booking, err error)
	close  func() error
}

// A booking is a row of the table of the application.
type booking struct{ Effect, Receipt string }

func (s site) till(ctx context.Context) (till, error) {
	if s.SQLite != "" {
		db, err := sql.Open("sqlite", s.SQLite+"&_txlock=immediate")
		return sqliteTill(db), err
	}
	pool, err := pgxpool.New(ctx, s.Postgres)
	if err != nil {
		return till{}, err
	}
	return postgresTill(pool), nil
}

func sqliteTill(db *sql.DB) till {
	l := sqliteledger.New(db, nil)
	book := func(ctx context.Context, e ledger.Effect, receipt string, at func(string)) (string, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		defer tx.Rollback()
		kept, err := sqliteledger.Tx(ctx, l, tx, e, func(ctx context.Context) (string, error) {
			at(writeBefore)
			_, err := tx.ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?, ?)", e.Session, e.ID, receipt)
			at(writeAfter)
			return receipt, err
		})
		if err != nil {
			return "", err
		}
		at(commitBefore)
		at(committing)
		return kept, tx.Commit()
	}
	read := func(ctx context.Context, session string) (booked []booking, err error) {
		rows, err := db.QueryContext(ctx, "SELECT effect, receipt FROM bookings WHERE session = ?", session)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var b booking
			if err := rows.Scan(&b.Effect, &b.Receipt); err != nil {
				return nil, err
			}
			booked = append(booked, b)
		}
		return booked, rows.Err()
	}
	return till{l, book, read, db.Close}
}

func postgresTill(pool *pgxpool.Pool) till {
	l := pgledger.New(pool, nil)
	book := func(ctx context.Context, e ledger.Effect, receipt string, at func(string)) (string, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return "", err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		kept, err := pgledger.Tx(ctx, l, tx, e, func(ctx context.Context) (string, error) {
			at(writeBefore)
			_, err := tx.Exec(ctx, "INSERT INTO bookings VALUES ($1, $2, $3)", e.Session, e.ID, receipt)
			at(writeAfter)
			return receipt, err
		})
		if err != nil {
			return "", err
		}
		at(commitBefore)
		at(committing)
		return kept, tx.Commit(context.WithoutCancel(ctx)) // of a process that was stopped past its lease, too
	}
	read := func(ctx context.Context, session string) ([]booking, error) {
		rows, err := pool.Query(ctx, "SELECT effect, receipt FROM bookings WHERE session = $1", session)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToStructByPos[booking])
	}
	return till{l, book, read, func() error { pool.Close(); return nil }}
}

// teller returns a bot that books once in a turn. The text of the input says what names the effect, and the receipt
// which process has booked.
func (w opened) teller(k till, who string, at func(point string)) (*bot, error) {
	return orchestrator.New(orchestrator.Definition[talk]{
		Name: "support", First: "work",
		Intents: orchestrator.Intents[talk]{"work": {Run: func(ctx context.Context, t *turn) error {
			o := &orchestrator.OnceOptions[string]{Args: t.Input.Text}
			if t.Input.Text == byKey {
				o.Key = "order of " + t.Session
			}
			e, err := orchestrator.EffectOf(t, "book", o)
			if err != nil {
				return err
			}
			receipt, err := k.book(ctx, e, "booked by "+who, at)
			if err != nil {
				return err
			}
			t.State.Said = append(t.State.Said, receipt)
			at(commitAfter)
			return nil
		}}},
	}, w.checkpoints, &orchestrator.Options{Snapshots: w.snapshots, Ledger: w.ledger, Limits: w.limits, Logger: quiet})
}

// book books in one session. At the point DieIn it says so, and waits to be told to go on. At committing it goes on at
// once, as far as to the settle.
func (k *worker) book(ctx context.Context, w opened) error {
	t, err := k.Site.till(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	b, err := w.teller(t, "the first process", func(point string) {
		switch {
		case point != k.DieIn && (point != commitAfter || k.DieIn != committing):
		case point == committing:
			fmt.Println(inFlight)
		case point == k.DieIn:
			fmt.Println(inFlight)
			<-k.goOn
		default:
			<-k.goOn
		}
	})
	if err != nil {
		return err
	}
	_, _ = b.Execute(ctx, k.Sessions[0], orchestrator.Input{Text: k.Text}, nil)
	fmt.Println(left)
	return nil
}

// The inputs of a teller.
const (
	byKey   = "by key"
	inPlace = "by place"
)

// tillSites runs test on each database that has a ledger.
func tillSites(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	tests := make(map[string]func(*testing.T))
	for name, build := range map[string]func(*testing.T) site{
		"postgres": onPostgres, "pgbouncer": onPgBouncer, "sqlite": onSQLite,
	} {
		tests[name] = func(t *testing.T) { test(t, build(t)) }
	}
	together(t, tests)
	leaktest.None(t, testenv.Leaks()...)
}

// onPgBouncer is behind PgBouncer in transaction mode.
func onPgBouncer(t *testing.T) site {
	server := testenv.StartPostgres(t, nil)
	migrated(t, "pgx", server.URL, migrations.Postgres)
	return site{Postgres: testenv.StartPgBouncer(t, server).URL + "&default_query_exec_mode=cache_describe"}
}

// openTill opens the till of a site, with an empty table.
func openTill(t *testing.T, s site) till {
	t.Helper()
	driver, dsn := "pgx", s.Postgres
	if s.SQLite != "" {
		driver, dsn = "sqlite", s.SQLite
	}
	db, err := sql.Open(driver, dsn)
	if err == nil {
		_, err = db.ExecContext(t.Context(), bookings)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	k, err := s.till(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.close() })
	return k
}

// wantOneBooking checks that the application has one booking for a session, and that the booking, the effect and the
// turn agree. It returns the receipt.
func wantOneBooking(t *testing.T, b *bot, k till, session string) string {
	t.Helper()
	wantRuns(t, b, 0)
	booked, err := k.read(t.Context(), session)
	if err != nil || len(booked) != 1 {
		t.Fatalf("booked: %q, %v", booked, err)
	}
	effects := 0
	for e, err := range k.ledger.Effects(t.Context(), ledger.Query{Session: session}) {
		if err != nil {
			t.Fatal(err)
		}
		effects++
		if e.ID != booked[0].Effect || e.State != ledger.Completed || string(e.Result) != `"`+booked[0].Receipt+`"` {
			t.Errorf("effect %s is %s with %s, and booked is %q", e.ID, e.State, e.Result, booked)
		}
	}
	turns := 0
	for res, err := range b.Turns(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		turns++
		if !slices.Equal(res.State.Said, []string{booked[0].Receipt}) {
			t.Errorf("the turn says %q, and booked is %q", res.State.Said, booked)
		}
	}
	if effects != 1 || turns != 1 {
		t.Errorf("%d effects and %d turns", effects, turns)
	}
	return booked[0].Receipt
}

// The receipts of tellers.
const (
	byFirst  = "booked by the first process"
	bySecond = "booked by the second process"
)

// A process is killed at each point of Tx. A second process finishes the turn. The application has booked once, and its
// booking, the effect and the turn agree. What was not committed, the second process has booked.
func TestTxProcessKilled(t *testing.T) {
	tillSites(t, func(t *testing.T, s site) {
		w, k := openSite(t, s), openTill(t, s)
		b, err := w.teller(k, "the second process", func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range txPoints {
			for _, how := range []string{inPlace, byKey} {
				t.Run(point+" "+how, func(t *testing.T) {
					session := "killed " + point + " " + how
					p := job{Do: book, Site: s, DieIn: point, Text: how, Sessions: []string{session}}.start(t)
					p.hear(inFlight)
					p.kill()
					w.free(t, session)
					finishAll(t, b, func() {})
					got := wantOneBooking(t, b, k, session)
					switch point {
					case committing:
						t.Log(got)
					case commitAfter:
						if got != byFirst {
							t.Errorf("%s, and the first process had committed", got)
						}
					default:
						if got != bySecond {
							t.Errorf("%s, and the first process had not committed", got)
						}
					}
				})
			}
		}
	})
}

// A process is stopped inside Tx, past the end of its lease. Its transaction holds the fence of the run, so the next
// owner waits in Adopt. Either the process goes on, or the server ends the transaction. The application has booked
// once. If the process goes on, its context has ended: it can commit, and it can write no more.
func TestTxProcessStopped(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, point := range []string{writeBefore, writeAfter, commitBefore} {
		for _, ended := range []bool{false, true} {
			tests[fmt.Sprint(point, ", ended ", ended)] = func(t *testing.T) {
				s := onPostgres(t)
				k, session := openTill(t, s), "stopped"
				s.TTL = shortLease
				w := openSite(t, s)
				p := job{Do: book, Site: s, DieIn: point, Text: inPlace, Sessions: []string{session}}.start(t)
				p.hear(inFlight)
				signal(t, p, sigStop)

				adopting := make(chan struct{})
				var once sync.Once
				w.ledger = faulttest.Ledger(w.ledger, faulttest.On(
					func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
						once.Do(func() { close(adopting) })
						return next(ctx)
					}, "AdoptEffects"))
				b, err := w.teller(k, "the second process", func(string) {})
				if err != nil {
					t.Fatal(err)
				}
				var finishing sync.WaitGroup
				finishing.Go(func() { finishAll(t, b, func() {}) })
				<-adopting
				if ended {
					endTransactions(t, s)
					finishing.Wait()
				}
				signal(t, p, sigCont)
				p.goOn()
				p.hear(left)
				p.exit()
				finishing.Wait()
				got := wantOneBooking(t, b, k, session)
				if ended && got != bySecond || !ended && point == commitBefore && got != byFirst {
					t.Error(got)
				}
			}
		}
	}
	together(t, tests)
	leaktest.None(t, testenv.Leaks()...)
}

// endTransactions ends the sessions that have written in the table of the application, as
// idle_in_transaction_session_timeout does.
func endTransactions(t *testing.T, s site) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	err = conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_locks
		WHERE relation = 'holdfast_effects'::regclass AND mode = 'RowExclusiveLock'`).Scan(&n)
	if err != nil || n != 1 {
		t.Fatalf("%d transactions, %v", n, err)
	}
}
