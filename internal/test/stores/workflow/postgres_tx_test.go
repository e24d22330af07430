package workflow_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
)

// open returns a database with a table of the caller, and a run that a owns.
func open(t *testing.T, o *postgres.Options, configure ...func(*pgxpool.Config)) (*pgxpool.Pool, *postgres.DB, caller) {
	t.Helper()
	p := pgtest.Pool(t, configure...)
	pgtest.Exec(t, p, "CREATE TABLE mine (n integer)")
	db := postgres.New(p, o)
	c := caller{t, db.Workflows()}
	check(t, c.start(begun("r"))())
	return p, db, c
}

// inserts returns what a step writes, and its outcome.
func inserts(ctx context.Context, e workflow.Entry) func(tx pgx.Tx) (workflow.Entry, error) {
	return func(tx pgx.Tx) (workflow.Entry, error) {
		_, err := tx.Exec(ctx, "INSERT INTO mine VALUES (1)")
		return e, err
	}
}

// What a step writes commits with its journal row, or not at all. All of it works with one connection.
func TestPostgresWriteTx(t *testing.T) {
	t.Parallel()
	p, db, c := open(t, nil, pgtest.OneConnection)
	errMine := errors.New("mine")
	other := entryOf("r", workflow.Stay, stepOf("t"))
	other.Fence.Nonce = "other"
	mail := entryOf("r", workflow.Stay, stepOf("t"))
	mail.Mail = 7
	for _, step := range []struct {
		what         string
		e            workflow.Entry
		f            error // of the function
		verdict, err error
		rows, steps  int
	}{
		{"an error of the function", entryOf("r", workflow.Stay, stepOf("s")), errMine, nil, errMine, 0, 0},
		{"a step", entryOf("r", workflow.Stay, stepOf("s")), nil, nil, nil, 1, 1},
		{"the step once more", entryOf("r", workflow.Stay, stepOf("s")), nil, nil, workflow.ErrInvalid, 1, 1},
		{"a step of another owner", other, nil, lock.ErrFenced, nil, 1, 1},
		{"a step that has not seen a signal", mail, nil, workflow.ErrMail, nil, 1, 1},
		{"a step of no run", entryOf("none", workflow.Stay, stepOf("s")), nil, workflow.ErrNotFound, nil, 1, 1},
		{"a step without a name", entryOf("r", workflow.Stay, workflow.Step{}), nil, nil, workflow.ErrInvalid, 1, 1},
		{"the end", entryOf("r", workflow.End, stepOf("last")), nil, nil, nil, 2, 2},
		{"the end once more", entryOf("r", workflow.End, stepOf("last")), nil, nil, nil, 2, 2},
		{"a step after it", entryOf("r", workflow.Stay, stepOf("t")), nil, workflow.ErrOver, nil, 2, 2},
	} {
		verdict, err := db.WriteTx(t.Context(), func(tx pgx.Tx) (workflow.Entry, error) {
			e, err := inserts(t.Context(), step.e)(tx)
			return e, errors.Join(step.f, err)
		})
		if !errors.Is(verdict, step.verdict) || !errors.Is(err, step.err) || (verdict == nil) != (step.verdict == nil) {
			t.Errorf("%s: %v, %v", step.what, verdict, err)
		}
		if rows := pgtest.Value[int](t, p, "SELECT count(*) FROM mine"); rows != step.rows {
			t.Errorf("after %s there are %d rows, want %d", step.what, rows, step.rows)
		}
		check(t, c.steps("r", step.steps)())
	}
}

// Neither a signal nor a cancel waits for the function of a step. After a cancel the step is refused.
func TestPostgresWriteTxBeside(t *testing.T) {
	t.Parallel()
	p, db, c := open(t, nil)
	verdict, err := db.WriteTx(t.Context(), func(tx pgx.Tx) (workflow.Entry, error) {
		check(t, c.send(signalTo("r", "1"), workflow.Message{Run: "r", Action: workflow.Cancel})())
		return inserts(t.Context(), entryOf("r", workflow.Stay, stepOf("s")))(tx)
	})
	if !errors.Is(verdict, workflow.ErrOver) || err != nil {
		t.Errorf("got %v, %v", verdict, err)
	}
	if n := pgtest.Value[int](t, p, "SELECT count(*) FROM mine"); n != 0 {
		t.Errorf("there are %d rows", n)
	}
}

// A transaction of the caller starts and signals runs: others see it when it has committed, and nothing if it is rolled
// back. It sees itself what it has done.
func TestPostgresIn(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*pgxpool.Config){
		"pool": func(*pgxpool.Config) {}, "serializable": pgtest.Isolation("serializable"),
		"text": func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, db, c := open(t, nil, configure)
			for _, commits := range []bool{false, true} {
				tx, err := p.Begin(t.Context())
				check(t, err)
				in := db.In(tx)
				started, err := in.Start(t.Context(), []workflow.NewRun{keyed("x", "k"), keyed("y", "l")})
				check(t, err)
				again, err := in.Start(t.Context(), []workflow.NewRun{keyed("z", "k")})
				check(t, err)
				if !started[0].New || !started[1].New || again[0].New || again[0].ID != "x" {
					t.Errorf("started %+v, %+v", started, again)
				}
				receipts, err := in.Send(t.Context(), []workflow.Message{signalTo("r", "1"), signalTo("x", "1")})
				check(t, err)
				if !slices.Equal(receipts, []workflow.Receipt{workflow.Kept, workflow.Kept}) {
					t.Errorf("receipts %v", receipts)
				}
				child := keyed("x.1", "")
				child.Parent = "x"
				_, err = in.Start(t.Context(), []workflow.NewRun{child})
				check(t, err)
				receipts, err = in.Send(t.Context(), []workflow.Message{{Run: "x", Action: workflow.Cancel}})
				check(t, err)
				if !slices.Equal(receipts, []workflow.Receipt{workflow.Applied}) {
					t.Errorf("receipts %v", receipts)
				}
				check(t, pages(t, in, workflow.Query{Status: workflow.Cancelled}, 10, 2)())
				child.ID = "x.2"
				if _, err := in.Start(t.Context(), []workflow.NewRun{child}); !errors.Is(err, workflow.ErrOver) {
					t.Errorf("a child of a run that is cancelled: %v", err)
				}
				check(t, pages(t, in, workflow.Query{}, 10, 4)())
				check(t, journal(t, in, "r", 1)())
				counts, err := in.Counts(t.Context())
				if check(t, err); counts["w"][workflow.Running] != 2 {
					t.Errorf("counts %v", counts)
				}
				check(t, c.list(workflow.Query{}, 10, 1)())
				if commits {
					check(t, tx.Commit(t.Context()))
					check(t, c.list(workflow.Query{}, 10, 4)())
				} else {
					check(t, tx.Rollback(t.Context()))
					check(t, c.list(workflow.Query{}, 10, 1)())
				}
			}
		})
	}
}

// If the connection reads times as text in an odd style, a transaction of the caller starts runs and reads none.
func TestPostgresInOdd(t *testing.T) {
	t.Parallel()
	p, db, _ := open(t, nil, pgtest.Behind["simple protocol"])
	tx, err := p.Begin(t.Context())
	check(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = db.In(tx).Start(t.Context(), []workflow.NewRun{keyed("x", "k")})
	check(t, err)
	for _, err := range db.In(tx).Runs(t.Context(), workflow.Query{}) {
		if !errors.Is(err, workflow.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

// Raise takes all runs from their owners, whose next write is refused, and makes them due.
func TestPostgresRaise(t *testing.T) {
	t.Parallel()
	_, db, c := open(t, nil)
	check(t, c.start(begun("ended"), keyed("due", ""))())
	check(t, c.write(nil, entryOf("ended", workflow.End))())
	for range 2 {
		check(t, db.Raise(t.Context(), time.Time{}, -1))
		check(t, c.write(lock.ErrFenced, entryOf("r", workflow.Stay, stepOf("s")))())
	}
	check(t, c.claim(2, claimOf("b"))())
}

// A frozenPool makes transactions whose process stands still before the commit, until it is thawed.
type frozenPool struct {
	*pgxpool.Pool
	frozen, thawed chan struct{}
}

func (p frozenPool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := p.Pool.BeginTx(ctx, o)
	return frozenTx{tx, p}, err
}

type frozenTx struct {
	pgx.Tx
	pool frozenPool
}

func (tx frozenTx) Commit(ctx context.Context) error {
	close(tx.pool.frozen)
	<-tx.pool.thawed
	return tx.Tx.Commit(ctx)
}

// A process that stands still in the transaction of a step keeps its run from others for some seconds only.
func TestPostgresFrozenTx(t *testing.T) {
	t.Parallel()
	p, _, c := open(t, nil)
	frozen, done := frozenPool{p, make(chan struct{}), make(chan struct{})}, make(chan error, 1)
	go func() {
		s := pgworkflow.New(p, nil)
		_, err := s.WriteTx(t.Context(), frozen, inserts(t.Context(), entryOf("r", workflow.Stay, stepOf("s"))))
		done <- err
	}()
	<-frozen.frozen
	from := claimOf("b")
	from.From = "a"
	for began := time.Now(); ; {
		claimed, _, err := c.Claim(t.Context(), from)
		check(t, err)
		if len(claimed) == 1 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("nobody can take the run over")
		}
		<-time.After(50 * time.Millisecond)
	}
	close(frozen.thawed)
	if err := <-done; err == nil {
		t.Error("the step was committed")
	}
	if n := pgtest.Value[int](t, p, "SELECT count(*) FROM mine"); n != 0 {
		t.Errorf("there are %d rows", n)
	}
	check(t, c.steps("r", 0)())
}

// A transaction that the server certainly rolls back because of what the step did is told from one that is cut off.
func TestPostgresWriteTxAborted(t *testing.T) {
	t.Parallel()
	p, db, c := open(t, nil, pgtest.OneConnection)
	pgtest.Exec(t, p, "CREATE TABLE later (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	for what, f := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"a constraint at the commit": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO later VALUES (1), (1)")
			return err
		},
		"an error that is passed over": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		},
		"a rollback of its own": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		verdict, err := db.WriteTx(t.Context(), func(tx pgx.Tx) (workflow.Entry, error) {
			return entryOf("r", workflow.Stay, stepOf("s")), f(t.Context(), tx)
		})
		if verdict != nil || !errors.Is(err, workflow.ErrAborted) {
			t.Errorf("%s: %v, %v", what, verdict, err)
		}
	}
	check(t, c.steps("r", 0)())
	ctx, cancel := context.WithCancel(t.Context())
	_, err := db.WriteTx(ctx, func(pgx.Tx) (workflow.Entry, error) {
		cancel()
		return entryOf("r", workflow.Stay, stepOf("s")), nil
	})
	if err == nil || errors.Is(err, workflow.ErrAborted) {
		t.Errorf("a transaction that is cut off: %v", err)
	}
}
