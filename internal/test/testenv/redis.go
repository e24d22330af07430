package testenv

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Redis returns a client of the shared Redis, and a prefix for the test's keys. The prefix consists of letters, digits
// and a colon. When the test ends, its keys are deleted and the client is closed.
func Redis(tb testing.TB) (*redis.Client, string) {
	tb.Helper()
	needMain(tb)
	url, err := server(redisEngine{})
	must(tb, err)
	opts, err := redis.ParseURL(url)
	must(tb, err)
	client := redis.NewClient(opts)
	prefix := "test:" + strings.ToLower(rand.Text()[:16])
	tb.Cleanup(func() {
		if err := deletePrefix(context.WithoutCancel(tb.Context()), client, prefix); err != nil {
			tb.Errorf("testenv: deleting the test's keys: %v", err)
		}
		client.Close() // the test may have closed it already
	})
	return client, prefix
}

func deletePrefix(ctx context.Context, client *redis.Client, prefix string) error {
	var cursor uint64
	for {
		keys, next, err := client.Scan(ctx, cursor, prefix+"*", 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := client.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// redisEngine is the engine of Redis: alone, as a node of a cluster, or as a Sentinel.
type redisEngine struct{ cluster, sentinel bool }

func (redisEngine) variable() (name, kind string) { return redisEnv, "Redis" }

func (e redisEngine) prepare(d *daemon) error {
	if _, err := binary("redis-server", "/usr/sbin"); err != nil {
		return err
	}
	if err := os.Mkdir(d.data, 0o700); err != nil {
		return err
	}
	if e.sentinel {
		if err := os.WriteFile(sentinelFile(d), nil, 0o600); err != nil {
			return err
		}
		if err := chown(sentinelFile(d)); err != nil {
			return err
		}
	}
	return chown(d.data)
}

// sentinelFile is the file in which a Sentinel keeps its state.
func sentinelFile(d *daemon) string { return filepath.Join(d.data, "sentinel.conf") }

func (e redisEngine) command(d *daemon) (*exec.Cmd, error) {
	server, err := binary("redis-server", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	if e.sentinel {
		args := []string{
			sentinelFile(d), "--sentinel", "--bind", "127.0.0.1", "--port", strconv.Itoa(d.port), "--dir",
			d.data,
		}
		return asOwner(exec.Command(server, args...)), nil
	}
	defaults := map[string]string{
		"bind":       "127.0.0.1",
		"port":       strconv.Itoa(d.port),
		"dir":        d.data,
		"save":       "",
		"appendonly": "no",
	}
	if d.opts.Durable {
		defaults["appendonly"], defaults["appendfsync"] = "yes", "always"
	}
	if e.cluster {
		defaults["cluster-enabled"] = "yes"
		defaults["cluster-node-timeout"] = "30000"
	}
	args := d.settings(defaults, func(name, value string) []string { return []string{"--" + name, value} })
	return asOwner(exec.Command(server, args...)), nil
}

func (redisEngine) url(port int) string { return fmt.Sprintf("redis://127.0.0.1:%d/0", port) }

func (redisEngine) ping(ctx context.Context, d *daemon) error {
	conn, err := dialRedis(ctx, d.addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if line, err := conn.line("PING"); line != "+PONG" {
		return fmt.Errorf("answer to PING: %q, %w", line, err)
	}
	return nil
}

// There is no data to save at the end: Redis writes durable data at each command.
func (redisEngine) signals() (now, orderly syscall.Signal) { return syscall.SIGKILL, syscall.SIGTERM }

// A redisConn speaks just enough of Redis's protocol for the monitor to tell it apart from the clients under test.
type redisConn struct {
	net.Conn
	r *bufio.Reader
}

func dialRedis(ctx context.Context, addr string) (*redisConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline) //nolint:errcheck // it is a new connection
	}
	return &redisConn{conn, bufio.NewReader(conn)}, nil
}

// line sends a command, if it is not empty, and returns the next line from the server.
func (c *redisConn) line(command string) (string, error) {
	if command != "" {
		if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
			return "", err
		}
	}
	line, err := c.r.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}
