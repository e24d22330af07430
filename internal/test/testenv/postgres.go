package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres returns a pool on the shared PostgreSQL. Its search_path is a migrated schema of the test's own. When the
// test ends, the pool is closed and the schema dropped.
func Postgres(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), PostgresURL(tb))
	must(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// exec1 runs sql on a connection of its own.
func exec1(ctx context.Context, connString, sql string) error {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the statement counts, not the close
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// postgresEngine is the engine of PostgreSQL.
type postgresEngine struct{}

func (postgresEngine) variable() (name, kind string) { return postgresEnv, "PostgreSQL" }

const postgresDirs = "/usr/lib/postgresql/*/bin"

// template returns a data directory made by initdb. All other data directories are copies of it. The processes of a
// command that [Start] serves share one.
var template = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(templateEnv); dir != "" {
		return dir, nil
	}
	initdb, err := binary("initdb", postgresDirs)
	if err != nil {
		return "", err
	}
	if uid, _ := owner(); uid == 0 {
		return "", fmt.Errorf("%w: PostgreSQL refuses to run as root, and there is no user postgres: run make setup",
			errUnavailable)
	}
	dir, err := tempDir("template-")
	if err != nil {
		return "", err
	}
	cmd := asOwner(exec.Command(initdb, "--pgdata", dir, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"))
	if checksums(initdb) {
		cmd.Args = append(cmd.Args, "--no-data-checksums")
	}
	cmd.Dir = dir
	return dir, output(cmd)
})

// checksums reports whether initdb turns on checksums of pages by default, as it does since PostgreSQL 18. With
// checksums, a read may write to the log. Tests that look at the log must see their own writes only.
func checksums(initdb string) bool {
	out, _ := exec.Command(initdb, "--version").Output()
	var major int
	_, _ = fmt.Sscanf(string(out), "initdb (PostgreSQL) %d", &major)
	return major >= 18
}

func (postgresEngine) prepare(d *daemon) error {
	from, err := template()
	if err != nil {
		return err
	}
	return output(asOwner(exec.Command("cp", "-R", "-p", from, d.data)))
}

func (postgresEngine) command(d *daemon) (*exec.Cmd, error) {
	server, err := binary("postgres", postgresDirs)
	if err != nil {
		return nil, err
	}
	defaults := map[string]string{
		"listen_addresses":           "127.0.0.1",
		"unix_socket_directories":    d.dir,
		"max_connections":            "300",
		"dynamic_shared_memory_type": "mmap", // removed with the data
		"fsync":                      "off",
		"full_page_writes":           "off",
	}
	if d.opts.Durable {
		defaults["fsync"], defaults["full_page_writes"] = "on", "on"
	}
	if d.opts.Count {
		defaults["shared_preload_libraries"] = "pg_stat_statements"
		defaults["pg_stat_statements.max"] = "50000"
	}
	args := d.settings(defaults, func(name, value string) []string { return []string{"-c", name + "=" + value} })
	return asOwner(exec.Command(server, append(args, "-D", d.data, "-p", fmt.Sprint(d.port))...)), nil
}

func (postgresEngine) url(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

func (postgresEngine) ping(ctx context.Context, d *daemon) error {
	if !d.opts.Count {
		return exec1(ctx, d.url(), "")
	}
	return exec1(ctx, d.url(), "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
}

func (postgresEngine) signals() (now, orderly syscall.Signal) { return syscall.SIGQUIT, syscall.SIGINT }

// sweep removes the shared memory that a killed PostgreSQL leaves behind. Its id is in the seventh line of
// postmaster.pid.
func (postgresEngine) sweep(d *daemon) {
	text, err := os.ReadFile(filepath.Join(d.data, "postmaster.pid"))
	if err != nil {
		return
	}
	if lines := strings.Split(string(text), "\n"); len(lines) > 6 {
		var key, id int
		if n, _ := fmt.Sscan(lines[6], &key, &id); n == 2 {
			exec.Command("ipcrm", "-m", strconv.Itoa(id)).Run() //nolint:errcheck // it may be gone
		}
	}
}

// The count leaves out the statements that frame others, and the statement that reads the count.
const countSQL = `
	SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
	WHERE query !~* '^\s*(begin|start|commit|end|rollback|abort|savepoint|release|set|reset)\M'
	AND query NOT LIKE '%pg_stat_statements%'`

func (postgresEngine) statements(ctx context.Context, d *daemon) (int64, error) {
	return count(ctx, d, countSQL)
}

const blocksSQL = `
	SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM pg_stat_statements
	WHERE query NOT LIKE '%pg_stat_statements%'`

func count(ctx context.Context, d *daemon, sql string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // the answer counts, not the close
	err = conn.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// FlushStatistics makes what the session of a pool of one connection has done appear in the server's statistics. Before
// PostgreSQL 15 the session ends for that, and another one takes its place.
func FlushStatistics(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	const ask = "SELECT pg_backend_pid(), to_regprocedure('pg_stat_force_next_flush()') IS NOT NULL"
	var pid int
	var flushes bool
	must(tb, pool.QueryRow(tb.Context(), ask).Scan(&pid, &flushes))
	if flushes {
		_, err := pool.Exec(tb.Context(), "SELECT pg_stat_force_next_flush()")
		must(tb, err)
		return
	}
	// A session reports when it ends, and leaves pg_stat_activity after that.
	pool.Reset()
	must(tb, await(time.Minute, nil, func(ctx context.Context) error {
		return none(ctx, pool, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)
	}))
	// The server shows no statistics that are older than half a second.
	_, err := pool.Exec(tb.Context(), "SELECT pg_sleep(0.5)")
	must(tb, err)
}

// none returns an error unless sql counts nothing.
func none(ctx context.Context, pool *pgxpool.Pool, sql string, args ...any) error {
	var n int
	err := pool.QueryRow(ctx, sql, args...).Scan(&n)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d rows of %s", n, sql)
	}
	return err
}

// output runs cmd, whose output becomes part of the error if it fails.
func output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}
