package pgtest

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Missing is a server that cannot be reached.
type Missing struct {
	URL       string
	Configure func(*pgxpool.Config)
}

// Unreachable are the servers that cannot be reached, by why they cannot.
var Unreachable = map[string]Missing{
	"down": {"postgres://bot@127.0.0.1:1/app", func(*pgxpool.Config) {}},
	"two hosts, and both are down": {
		"postgres://bot@127.0.0.1:1,127.0.0.1:2/app", func(*pgxpool.Config) {},
	},
	"no such host": {"postgres://bot@nowhere.invalid/app", func(c *pgxpool.Config) {
		c.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
	}},
	"no answer": {"postgres://bot@127.0.0.1:1/app", func(c *pgxpool.Config) {
		c.ConnConfig.ConnectTimeout = 5 * time.Millisecond
		c.ConnConfig.DialFunc = hang
	}},
}

// hang is a dial to a host that drops packets.
var hang pgconn.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
}
