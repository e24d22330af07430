package testenv

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options say how a server of the test's own is to run. With the zero value, and with nil, PostgreSQL keeps its data
// when it is killed, but not when the power fails. Redis keeps nothing unless it is Durable.
type Options struct {
	// Durable makes every commit reach the disk: fsync for PostgreSQL, an append-only file synced at every write for
	// Redis. If the disk is full, such a Redis exits. With the setting appendfsync=everysec, it refuses writes.
	Durable bool

	// TmpfsMB is the size in MiB of the disk that holds the data, for FillDisk. 0 means the temporary directory.
	// PostgreSQL needs 64 to start.
	TmpfsMB int

	// Count makes the server count statements.
	Count bool

	// Settings are added to the default settings and override them.
	Settings map[string]string

	// Env is added to the server's environment, as in "NAME=value".
	Env []string
}

// A Server is a PostgreSQL, a PgBouncer or a Redis that belongs to one test and ends with it.
// A method that fails ends the test.
type Server struct {
	URL string // stays the same after Restart

	tb testing.TB
	d  *daemon
	// monitor counts for a Redis with Options.Count.
	monitor *redisMonitor
}

// StartPostgres starts a PostgreSQL for this test. Its one database is empty, and URL names its superuser.
func StartPostgres(tb testing.TB, opts *Options) *Server {
	tb.Helper()
	return startServer(tb, postgresEngine{}, opts)
}

// Database creates a database of a PostgreSQL, with an encoding that PostgreSQL knows by name, and returns its URL.
func (s *Server) Database(encoding string) string {
	s.tb.Helper()
	name := "in_" + strings.ToLower(encoding)
	must(s.tb, exec1(s.tb.Context(), s.URL,
		"CREATE DATABASE "+name+" TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING '"+encoding+"'"))
	return strings.Replace(s.URL, "/postgres?", "/"+name+"?", 1)
}

// StartRedis starts a Redis for this test.
func StartRedis(tb testing.TB, opts *Options) *Server {
	tb.Helper()
	return startServer(tb, redisEngine{}, opts)
}

func startServer(tb testing.TB, e engine, opts *Options) *Server {
	tb.Helper()
	needMain(tb)
	_, err := server(e)
	must(tb, err)
	if opts == nil {
		opts = new(Options)
	}
	d, err := startDaemon(e, *opts)
	must(tb, err)
	s := &Server{URL: d.url(), tb: tb, d: d}
	tb.Cleanup(func() {
		s.monitor.Close()
		if err := d.close(); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
	s.watch()
	return s
}

// Kill kills all processes of the server with SIGKILL and returns when none is left.
func (s *Server) Kill() {
	s.tb.Helper()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	must(s.tb, s.d.proc.kill())
}

// Stop stops all processes of the server with SIGSTOP. Open connections stay open and do not answer. New connections do
// not answer either.
func (s *Server) Stop() {
	s.tb.Helper()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	_, err := s.d.proc.freeze()
	must(s.tb, err)
}

// Continue undoes Stop.
func (s *Server) Continue() {
	s.tb.Helper()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	must(s.tb, s.d.proc.thaw())
}

// Restart starts the server again, with the same URL and data, and returns when the server answers. If the server still
// runs, Restart shuts it down first.
func (s *Server) Restart() {
	s.tb.Helper()
	must(s.tb, s.d.quit(true))
	must(s.tb, s.d.start())
	s.watch()
}

// FillDisk takes all free space on the server's disk of limited size.
func (s *Server) FillDisk() {
	s.tb.Helper()
	f, err := os.OpenFile(s.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(s.tb, err)
	defer f.Close()
	zeros := bytes.NewReader(make([]byte, 1<<20))
	for err == nil {
		zeros.Reset(make([]byte, 1<<20))
		_, err = io.Copy(f, zeros)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		must(s.tb, err)
	}
}

// FreeDisk undoes FillDisk.
func (s *Server) FreeDisk() {
	s.tb.Helper()
	must(s.tb, os.Remove(s.ballast()))
}

func (s *Server) ballast() string {
	s.tb.Helper()
	if s.d.disk() == "" {
		s.tb.Fatal("testenv: the disk of a server without Options.TmpfsMB cannot be filled")
	}
	return filepath.Join(s.d.disk(), "ballast")
}

// Statements returns how many statements of clients the server has executed since its start, by the server's own count.
// On PostgreSQL, failed statements do not count, nor do BEGIN, COMMIT, SET and the like. The statements of a
// transaction count when it ends. On Redis, a script is one statement, and connecting, PING, MULTI and EXEC do not
// count.
func (s *Server) Statements() int64 {
	s.tb.Helper()
	if !s.d.opts.Count {
		s.tb.Fatal("testenv: a server without Options.Count does not count")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.tb.Context()), 30*time.Second)
	defer cancel()
	var n int64
	var err error
	if s.monitor != nil {
		n, err = s.monitor.statements(ctx)
	} else {
		n, err = postgresEngine{}.statements(ctx, s.d)
	}
	must(s.tb, err)
	return n
}

// Blocks returns how many blocks of tables and indexes a PostgreSQL with Options.Count has touched for clients.
func (s *Server) Blocks() int64 {
	s.tb.Helper()
	if !s.d.opts.Count {
		s.tb.Fatal("testenv: a server without Options.Count does not count")
	}
	n, err := count(s.tb.Context(), s.d, blocksSQL)
	must(s.tb, err)
	return n
}

// watch starts the counting on a Redis that has just started.
func (s *Server) watch() {
	s.tb.Helper()
	if _, ok := s.d.engine.(redisEngine); ok && s.d.opts.Count {
		s.monitor.Close()
		var err error
		s.monitor, err = watchRedis(s.d.addr())
		must(s.tb, err)
	}
}
