package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A redisMonitor counts the commands that clients send to a Redis. It uses MONITOR because the server's own statistics
// count a script and also each command of the script.
type redisMonitor struct {
	conn *redisConn
	n    int64
}

// notStatements connect, ask how the server is, or frame other commands.
var notStatements = []string{
	"auth", "client", "command", "config", "discard", "echo", "exec", "hello",
	"info", "multi", "ping", "quit", "readonly", "select", "unwatch", "watch",
}

func watchRedis(addr string) (*redisMonitor, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := dialRedis(ctx, addr)
	if err != nil {
		return nil, err
	}
	if line, err := conn.line("MONITOR"); line != "+OK" {
		conn.Close()
		return nil, fmt.Errorf("answer to MONITOR: %q, %w", line, err)
	}
	return &redisMonitor{conn: conn}, nil
}

// statements returns the number of commands that the server had executed before this call. It makes the server echo a
// marker and counts the commands before the marker.
func (m *redisMonitor) statements(ctx context.Context) (int64, error) {
	conn, err := dialRedis(ctx, m.conn.RemoteAddr().String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	marker := rand.Text()
	if _, err := conn.line("ECHO " + marker); err != nil {
		return 0, err
	}
	deadline, _ := ctx.Deadline()
	if err := m.conn.SetDeadline(deadline); err != nil {
		return 0, err
	}
	for {
		line, err := m.conn.line("")
		if err != nil {
			return 0, err
		}
		if strings.Contains(line, marker) {
			return m.n, nil
		}
		if counts(line) {
			m.n++
		}
	}
}

// counts reports whether a line such as
//
//	+1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "value"
//
// is a statement of a client. Scripts have "lua" in place of the address.
func counts(line string) bool {
	where, rest, _ := strings.Cut(line, "] \"")
	command, _, _ := strings.Cut(rest, "\"")
	return !strings.HasSuffix(where, " lua") && !slices.Contains(notStatements, strings.ToLower(command))
}

// Close does nothing to a nil monitor.
func (m *redisMonitor) Close() {
	if m != nil {
		m.conn.Close()
	}
}
