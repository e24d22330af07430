package workflows_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A site says where runs are kept, and how soon a process there is taken for dead.
type site struct {
	Kind             string // "postgres" or "sqlite"
	Where            string // the URL, or the file
	Listen           bool
	DeadAfter, Lease time.Duration

	// Takes is how long a step takes, and Workers how many runs a process has at a time. 0 is the default.
	Takes   time.Duration
	Workers int
}

func (s site) options() *flow.Options {
	return &flow.Options{
		DeadAfter: s.DeadAfter, Lease: s.Lease, Workers: s.Workers, MostCrashes: 50, Logger: quiet,
	}
}

// sites are where the tests play. Each returns an empty one.
var sites = map[string]func(t *testing.T) site{
	"postgres": func(t *testing.T) site { return onPostgres(t, testenv.PostgresURL(t)) },
	"sqlite":   onSQLite,
}

// A beat has half of quickly for its answer.
const quickly, lease = time.Second, 3 * time.Second

func onPostgres(t *testing.T, url string) site {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = postgres.New(pool, nil).Up(t.Context())
	if err == nil {
		_, err = pool.Exec(t.Context(), `CREATE TABLE calls (n bigserial PRIMARY KEY, step text, attempt int, pid int,
			value text)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return site{Kind: "postgres", Where: url, DeadAfter: quickly, Lease: lease}
}

func onSQLite(t *testing.T) site {
	t.Helper()
	s := site{Kind: "sqlite", Where: filepath.Join(t.TempDir(), "test.db"), DeadAfter: quickly, Lease: lease}
	db, err := sqlite.Open(s.Where)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = sqlite.New(db, nil).Up(t.Context())
	if err == nil {
		_, err = db.ExecContext(t.Context(), `CREATE TABLE calls (n INTEGER PRIMARY KEY AUTOINCREMENT, step TEXT,
			attempt INTEGER, pid INTEGER, value TEXT)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A call is a row that a function of a step has left. n tells the order.
type call struct {
	n       int64
	step    string
	attempt int
	pid     int
	value   string
}

// newCall returns what the function of the step of ctx leaves.
func newCall(ctx context.Context) call {
	return call{
		step: flow.StepID(ctx), attempt: flow.Attempt(ctx), pid: os.Getpid(),
		value: fmt.Sprint(os.Getpid(), "-", rand.Text()[:6]),
	}
}

func (c *call) args() []any { return []any{c.step, c.attempt, c.pid, c.value} }

const (
	noteSQL  = "INSERT INTO calls (step, attempt, pid, value) VALUES ($1, $2, $3, $4)"
	callsSQL = "SELECT n, step, attempt, pid, value FROM calls ORDER BY n"
)

// A world is a site as a process sees it.
type world struct {
	site
	store       database
	checkpoints checkpoint.Store
	snapshots   snapshot.Store
	ledger      ledger.Ledger

	note func(ctx context.Context, c call) error
	// book is a StepTx that notes its call in the transaction.
	book  func(r *flow.Run, name string) (string, error)
	calls func(ctx context.Context) ([]call, error)
	close func()
}

func (s site) open(ctx context.Context, h *hook) (*world, error) {
	if s.Kind == "sqlite" {
		return s.openSQLite(h)
	}
	pool, err := pgxpool.New(ctx, s.Where)
	if err != nil {
		return nil, err
	}
	var o postgres.Options
	o.Logger = quiet
	if s.Listen {
		o.Listen = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.Where) }
	}
	db := postgres.New(pool, &o)
	return &world{
		site: s, store: db.Workflows().(database), checkpoints: db.Checkpoints(), snapshots: db.Snapshots(),
		ledger: db.Ledger(),
		note: func(ctx context.Context, c call) error {
			_, err := pool.Exec(ctx, noteSQL, c.args()...)
			return err
		},
		book: func(r *flow.Run, name string) (string, error) {
			return flow.StepTx(r, name, struckTx[pgx.Tx]{db, h}, func(ctx context.Context, tx pgx.Tx) (string, error) {
				c := newCall(ctx)
				_, err := tx.Exec(ctx, noteSQL, c.args()...)
				return c.value, err
			})
		},
		calls: func(ctx context.Context) ([]call, error) {
			rows, err := pool.Query(ctx, callsSQL)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c call, err error) {
				return c, row.Scan(&c.n, &c.step, &c.attempt, &c.pid, &c.value)
			})
		},
		close: pool.Close,
	}, nil
}

func (s site) openSQLite(h *hook) (*world, error) {
	pool, err := sqlite.Open(s.Where)
	if err != nil {
		return nil, err
	}
	db := sqlite.New(pool, nil)
	return &world{
		site: s, store: db.Workflows().(database), checkpoints: db.Checkpoints(), snapshots: db.Snapshots(),
		ledger: db.Ledger(),
		note: func(ctx context.Context, c call) error {
			var err error
			h.beside(func() { _, err = pool.ExecContext(ctx, noteSQL, c.args()...) })
			return err
		},
		book: func(r *flow.Run, name string) (string, error) {
			on := struckTx[*sql.Tx]{db, h}
			return flow.StepTx(r, name, on, func(ctx context.Context, tx *sql.Tx) (string, error) {
				c := newCall(ctx)
				_, err := tx.ExecContext(ctx, noteSQL, c.args()...)
				return c.value, err
			})
		},
		calls: func(ctx context.Context) (all []call, err error) {
			rows, err := pool.QueryContext(ctx, callsSQL)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var c call
				if err := rows.Scan(&c.n, &c.step, &c.attempt, &c.pid, &c.value); err != nil {
					return nil, err
				}
				all = append(all, c)
			}
			return all, rows.Err()
		},
		close: func() { _ = pool.Close() },
	}, nil
}

// here opens a site for the test until it ends.
func (s site) here(t *testing.T) *world {
	t.Helper()
	w, err := s.open(t.Context(), new(hook))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}
