package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PoolSize is how many connections a [Pooler] has to its server.
const PoolSize = 4

// A Pooler is a PgBouncer that belongs to one test. It pools in transaction mode: a client may get another connection
// to the server for each transaction.
type Pooler struct{ *Server }

// StartPgBouncer starts a PgBouncer for this test, in front of a PostgreSQL of the test's own. The URL of the Pooler
// leads through PgBouncer to the server's one database.
func StartPgBouncer(tb testing.TB, postgres *Server) *Pooler {
	tb.Helper()
	p := &Pooler{startServer(tb, pgbouncerEngine{postgres.d}, nil)}
	// LeftBehind opens all connections, so that PgBouncer has a choice from the first transaction on.
	p.LeftBehind()
	return p
}

// pgbouncerEngine is the engine of PgBouncer.
type pgbouncerEngine struct{ server *daemon }

// PgBouncer is nothing without a PostgreSQL.
func (pgbouncerEngine) variable() (name, kind string) { return postgresEngine{}.variable() }

const pgbouncerDirs = "/usr/sbin"

func (pgbouncerEngine) prepare(*daemon) error {
	if uid, _ := owner(); uid == 0 {
		return fmt.Errorf("%w: PgBouncer refuses to run as root, and there is no user postgres: run make setup",
			errUnavailable)
	}
	_, err := binary("pgbouncer", pgbouncerDirs)
	return err
}

// command writes the configuration here, because the configuration contains the port.
func (e pgbouncerEngine) command(d *daemon) (*exec.Cmd, error) {
	pgbouncer, err := binary("pgbouncer", pgbouncerDirs)
	if err != nil {
		return nil, err
	}
	config := d.settings(map[string]string{
		"listen_addr":        "127.0.0.1",
		"listen_port":        fmt.Sprint(d.port),
		"unix_socket_dir":    "",
		"auth_type":          "any", // every client is the database's user
		"pool_mode":          "transaction",
		"default_pool_size":  fmt.Sprint(PoolSize),
		"server_round_robin": "1",
		"max_client_conn":    "300",
	}, func(name, value string) []string { return []string{name + " = " + value} })
	config = append([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d user=postgres", e.server.port),
		"[pgbouncer]",
	}, config...)
	file := filepath.Join(d.dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	return asOwner(exec.Command(pgbouncer, file)), nil
}

func (pgbouncerEngine) url(port int) string { return postgresEngine{}.url(port) }

func (pgbouncerEngine) ping(ctx context.Context, d *daemon) error { return exec1(ctx, d.url(), "") }

// PgBouncer has no data to save. In good order it waits for the transactions under way.
func (pgbouncerEngine) signals() (now, orderly syscall.Signal) {
	return syscall.SIGKILL, syscall.SIGINT
}

// leftSQL lists the state of a session that a new session does not have.
const leftSQL = `
	SELECT 'setting ' || name || ' = ' || setting FROM pg_settings WHERE source = 'session'
	UNION ALL SELECT 'prepared statement ' || statement FROM pg_prepared_statements
	UNION ALL SELECT 'cursor ' || statement FROM pg_cursors
	UNION ALL SELECT 'channel ' || channel FROM pg_listening_channels() AS channel
	UNION ALL SELECT 'advisory lock ' || objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
	UNION ALL SELECT 'temporary table ' || relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()`

// LeftBehind returns the state that clients have left in the pooler's connections to the server: settings, prepared
// statements, cursors, channels, advisory locks and temporary tables. If a transaction is still open, the test fails.
func (p *Pooler) LeftBehind() []string {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tb.Context()), 30*time.Second)
	defer cancel()
	left, err := p.leftBehind(ctx)
	must(p.tb, err)
	return left
}

// leftBehind takes all connections to the server at once, so that it sees each of them.
func (p *Pooler) leftBehind(ctx context.Context) (left []string, err error) {
	for range PoolSize {
		conn, err := pgx.Connect(ctx, p.URL+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx) //nolint:errcheck // the answer counts, not the close
		tx, err := conn.Begin(ctx)
		if err != nil {
			return nil, fmt.Errorf("a connection to the server is not free: %w", err)
		}
		defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
		rows, err := tx.Query(ctx, leftSQL)
		if err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		left = append(left, found...)
	}
	return left, nil
}
