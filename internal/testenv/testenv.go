package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The environment that this package reads.
const (
	postgresEnv = "HOLDFAST_TEST_POSTGRES_URL"
	redisEnv    = "HOLDFAST_TEST_REDIS_URL"
	requiredEnv = "HOLDFAST_TEST_REQUIRED"
)

// errUnavailable says that this machine cannot run the server that a test asks for.
var errUnavailable = errors.New("not available here")

var inMain atomic.Bool

// Main runs the tests of a package, stops the servers that they started, removes their data and exits. On SIGINT and
// SIGTERM it stops the servers, removes their data and exits at once.
func Main(m *testing.M) {
	inMain.Store(true)
	go exitOnSignal()
	code := m.Run()
	if err := closeAll(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func exitOnSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	sig := <-c
	if err := closeAll(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
	}
	os.Exit(128 + int(sig.(syscall.Signal)))
}

// Leaks are the goroutines of this package that run on after a test, for goleak.VerifyNone(t, testenv.Leaks()...).
func Leaks() []goleak.Option {
	const pkg = "github.com/holdfast-go/holdfast/internal/testenv."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(pkg + "exitOnSignal"),
		goleak.IgnoreAnyFunction(pkg + "launch"),
		goleak.IgnoreAnyFunction(pkg + "(*process).wait"),
	}
}

// Start starts a PostgreSQL and a Redis. env makes the tests of other processes use them. stop stops both and removes
// their data.
func Start() (env []string, stop func() error, err error) {
	for _, s := range []struct {
		env    string
		engine engine
	}{{postgresEnv, postgresEngine{}}, {redisEnv, redisEngine{}}} {
		d, err := startDaemon(s.engine, Options{})
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		env = append(env, s.env+"="+d.url())
	}
	return env, closeAll, nil
}

// shared returns the URL of the server that env names. If env is not set, the first call starts a server.
func shared(env string, e engine) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if url := os.Getenv(env); url != "" {
			return url, nil
		}
		d, err := startDaemon(e, Options{})
		if err != nil {
			return "", err
		}
		return d.url(), nil
	})
}

// must ends the test if err is not nil. If the machine lacks a program and the test is not required, must skips the
// test.
func must(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errUnavailable) && os.Getenv(requiredEnv) != "1":
		tb.Skip("testenv: ", err)
	default:
		tb.Fatal("testenv: ", err)
	}
}

func needMain(tb testing.TB) {
	tb.Helper()
	if !inMain.Load() {
		tb.Fatal("testenv: the package needs func TestMain(m *testing.M) { testenv.Main(m) }")
	}
}
