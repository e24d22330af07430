package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/migrations"
)

// PostgresURL is like [Postgres] for tests that open their connections themselves, with pgx or with database/sql. Such
// a test closes its connections before it ends.
func PostgresURL(tb testing.TB) string {
	tb.Helper()
	return postgresSchema(tb, func(ctx context.Context, c *stdlib.Conn) error {
		db := sql.OpenDB(lent{c})
		defer db.Close()
		db.SetMaxOpenConns(1)
		return migrations.Up(ctx, db, migrations.Postgres)
	})
}

// PostgresSchema is like [PostgresURL], but the schema has only what the given statements create.
func PostgresSchema(tb testing.TB, create ...string) string {
	tb.Helper()
	return postgresSchema(tb, func(ctx context.Context, c *stdlib.Conn) error {
		for _, statements := range create {
			if err := run(ctx, c, statements); err != nil {
				return err
			}
		}
		return nil
	})
}

func postgresSchema(tb testing.TB, fill func(context.Context, *stdlib.Conn) error) string {
	tb.Helper()
	needMain(tb)
	server, err := server(postgresEngine{})
	must(tb, err)
	u, err := url.Parse(server)
	must(tb, err)
	if u.Scheme == "" {
		tb.Fatalf("testenv: %s is not a URL", postgresEnv)
	}
	schema := "test_" + strings.ToLower(rand.Text()[:16])
	must(tb, keepers.with(tb.Context(), server, func(ctx context.Context, c *stdlib.Conn) error {
		return run(ctx, c, "CREATE SCHEMA "+schema)
	}))
	tb.Cleanup(func() {
		ctx := context.WithoutCancel(tb.Context())
		err := keepers.with(ctx, server, func(ctx context.Context, c *stdlib.Conn) error {
			// The test may have left a transaction open. Then an error is better than a hang.
			const set = "SET client_min_messages = warning; SET lock_timeout = '10s'; "
			return run(ctx, c, set+"DROP SCHEMA "+schema+" CASCADE")
		})
		if err != nil {
			tb.Errorf("testenv: dropping the test's schema: %v", err)
		}
	})
	must(tb, keepers.with(tb.Context(), server, func(ctx context.Context, c *stdlib.Conn) error {
		if err := run(ctx, c, "SET search_path TO "+schema); err != nil {
			return err
		}
		return fill(ctx, c)
	}))
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// run runs statements, which take effect together or not at all.
func run(ctx context.Context, c *stdlib.Conn, sql string) error {
	_, err := c.Conn().Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// keepers make and drop the schemas of this process. A connection that has done so before needs half the time of a new
// one, because its session remembers the catalog.
var keepers idle

// An idle has connections that are not in use.
type idle struct {
	mu    sync.Mutex // protects following field
	conns []*stdlib.Conn
}

// with calls f with a connection. After an error the connection is closed.
func (i *idle) with(ctx context.Context, connString string, f func(context.Context, *stdlib.Conn) error) error {
	c, err := i.take(ctx, connString)
	if err != nil {
		return err
	}
	if err := f(ctx, c); err != nil {
		return errors.Join(err, c.Close())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conns = append(i.conns, c)
	return nil
}

// take returns a connection that answers.
func (i *idle) take(ctx context.Context, connString string) (*stdlib.Conn, error) {
	i.mu.Lock()
	var c *stdlib.Conn
	if n := len(i.conns); n > 0 {
		c, i.conns = i.conns[n-1], i.conns[:n-1]
	}
	i.mu.Unlock()
	if c != nil {
		if c.Conn().Config().ConnString() == connString && c.Ping(ctx) == nil {
			return c, nil
		}
		c.Close() //nolint:errcheck // a test has stopped the server or named another one
	}
	return connect(ctx, connString)
}

func connect(ctx context.Context, connString string) (*stdlib.Conn, error) {
	config, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	c, err := stdlib.GetConnector(*config).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.(*stdlib.Conn), nil
}

// close closes the connections.
func (i *idle) close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	for _, c := range i.conns {
		errs = append(errs, c.Close())
	}
	i.conns = nil
	return errors.Join(errs...)
}

// A lent gives a sql.DB the use of a connection that outlives it.
type lent struct{ conn *stdlib.Conn }

func (l lent) Connect(context.Context) (driver.Conn, error) { return unclosed{l.conn}, nil }
func (l lent) Driver() driver.Driver                        { return stdlib.GetDefaultDriver() }

// An unclosed is a connection that its sql.DB does not close.
type unclosed struct{ *stdlib.Conn }

func (unclosed) Close() error { return nil }
