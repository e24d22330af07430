package pgcheckpoint_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, nil) })
}

// Poolers and configurations that users have.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.Behind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkpointtest.Run(t, numbered(pgtest.EmptyPool(t, configure), "s"))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the one before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { checkpointtest.Run(t, numbered(p, "s")) })
}

// A role or a database may ask by default for transactions that see no later change of others. The store keeps its
// promises.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			checkpointtest.Run(t, numbered(pgtest.EmptyPool(t, pgtest.Isolation(level)), "s"))
		})
	}
}

// A store on one connection goes on after a failed call.
func TestIsolationOneConnection(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t, pgtest.Isolation("serializable"))
	s := pgcheckpoint.New(p, nil)
	conn, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	bare := pgcheckpoint.New(conn.Conn(), nil)
	r := request()
	r.TTL = time.Millisecond
	one, err := s.Claim(t.Context(), key("a"), r)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), s.Fill("UPDATE {sessions} SET owner = 'x'")); err != nil {
		t.Fatal(err)
	}
	met := make(chan error, 1)
	go func() {
		var err error
		for ok := true; ok; ok = pgstate.Of(err) == pgstate.LockNotAvailable { // the machine may be slow to commit
			_, err = bare.Renew(t.Context(), time.Hour, []checkpoint.Lease{one.Lease})
		}
		met <- err
	}()
	pgtest.AwaitBlocked(t, p, tx)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-met; err != nil {
		t.Fatal(err)
	}
	if tx, err = p.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), s.Fill("SELECT FROM {sessions} FOR UPDATE")); err != nil {
		t.Fatal(err)
	}
	_, err = bare.Renew(t.Context(), time.Second, []checkpoint.Lease{one.Lease})
	if pgstate.Of(err) != pgstate.LockNotAvailable {
		t.Errorf("a renewal of a locked row returns %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost, err := bare.Renew(t.Context(), time.Hour, []checkpoint.Lease{one.Lease}); err != nil || len(lost) > 0 {
		t.Errorf("after a call that failed, Renew returns %v, %v", lost, err)
	}
}

func TestStoreQualified(t *testing.T) {
	t.Parallel()
	var schema string
	if err := testenv.Postgres(t).QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	elsewhere := pgtest.EmptyPool(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "pg_catalog"
	})
	checkpointtest.Run(t, numbered(elsewhere, schema+".My_"))
}

// numbered returns a function that makes stores on one pool, each with tables of its own.
func numbered(p *pgxpool.Pool, prefix string) func(*testing.T) checkpoint.Store {
	return numberedWith(p, prefix, pgcheckpoint.Options{})
}

func numberedWith(p *pgxpool.Pool, prefix string, o pgcheckpoint.Options) func(*testing.T) checkpoint.Store {
	n := 0
	return func(t *testing.T) checkpoint.Store {
		n++
		o.Prefix = fmt.Sprintf("%s%d_", prefix, n)
		s := pgcheckpoint.New(p, &o)
		create(t, p, s)
		return s
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return open(t, &pgcheckpoint.Options{TTL: ttl})
	})
}

func TestUnsettled(t *testing.T) {
	t.Parallel()
	for name, functions := range map[string]bool{"statements": false, "functions": true} {
		t.Run(name, func(t *testing.T) {
			checkpointtest.RunUnsettled(t, func(t *testing.T, unsettled time.Duration) checkpointtest.SweepingStore {
				p := testenv.Postgres(t)
				s := pgcheckpoint.New(p, &pgcheckpoint.Options{Unsettled: unsettled, Functions: functions})
				create(t, p, s)
				return s
			})
		})
	}
}

func TestPrefix(t *testing.T) {
	for _, bad := range []string{
		"a-b", "a.b.c", `"a"`, "9", "a_very_long_prefix_that_leaves_no_room_for_the_names_of_indexes_",
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("prefix %q is taken", bad)
				}
			}()
			pgcheckpoint.New(nil, &pgcheckpoint.Options{Prefix: bad})
		}()
	}
}

func BenchmarkStore(b *testing.B) { checkpointtest.Bench(b, open(b, nil)) }

func open(tb testing.TB, o *pgcheckpoint.Options) *pgcheckpoint.Store {
	tb.Helper()
	return pgcheckpoint.New(pgtest.PoolWith(tb, pgcheckpoint.New(nil, o).Schema()), o)
}

func create(tb testing.TB, p *pgxpool.Pool, s *pgcheckpoint.Store) {
	tb.Helper()
	pgtest.Create(tb, p, s)
}

// Dead turns are removed before they take up much room. A setting that is there stays, and no reader is waited for.
func TestAutovacuum(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, nil)
	options := func() (o string) {
		const sql = "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = 'holdfast_turns'::regclass"
		if err := p.QueryRow(t.Context(), sql).Scan(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if got, want := options(), "autovacuum_vacuum_scale_factor=0.02"; !strings.Contains(got, want) {
		t.Errorf("the options of the table are %q, want %s", got, want)
	}
	pgtest.Exec(t, p, "ALTER TABLE holdfast_turns SET (autovacuum_vacuum_scale_factor = 0.5)")
	create(t, p, s)
	if got, want := options(), "autovacuum_vacuum_scale_factor=0.5"; !strings.Contains(got, want) {
		t.Errorf("the options of the table are %q, want %s", got, want)
	}
	pgtest.Exec(t, p, "ALTER TABLE holdfast_turns RESET (autovacuum_vacuum_scale_factor)")
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast_turns"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(t.Context(), "SET statement_timeout = '5s'; "+s.Schema()); err != nil {
		t.Error(err)
	}
}

// The schema may be run again beside readers, writers and a vacuum: it waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	var compressed int
	// Before 14 PostgreSQL has no attcompression, and no lz4.
	const sql = `SELECT count(*) FROM pg_attribute a
		LEFT JOIN pg_settings ON name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
		WHERE attrelid = 'holdfast_turns'::regclass AND attname IN ('state', 'payload')
			AND (to_jsonb(a) ->> 'attcompression' = 'l' OR name IS NULL)`
	if err := p.QueryRow(t.Context(), sql).Scan(&compressed); err != nil || compressed != 2 {
		t.Errorf("%d columns are compressed as well as the server can, %v", compressed, err)
	}
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	// A vacuum takes this lock; a writer takes a weaker one.
	const vacuum = "LOCK TABLE holdfast_turns, holdfast_sessions IN SHARE UPDATE EXCLUSIVE MODE"
	if _, err := tx.Exec(t.Context(), vacuum); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(t.Context(), "SET statement_timeout = '5s'; "+s.Schema()); err != nil {
		t.Error(err)
	}
}
