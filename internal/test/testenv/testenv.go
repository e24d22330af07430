package testenv

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The environment that this package reads.
const (
	postgresEnv = "HOLDFAST_POSTGRES"
	redisEnv    = "HOLDFAST_REDIS"
	requiredEnv = "HOLDFAST_TEST_REQUIRED"
	templateEnv = "HOLDFAST_TEST_POSTGRES_TEMPLATE" // what template returns
)

// errUnavailable says that the server that a test asks for is not there, and cannot be started here.
var errUnavailable = errors.New("not available here")

var inMain atomic.Bool

// Main runs the tests of a package, stops the servers that they started, removes their data and exits. On SIGINT and
// SIGTERM it stops the servers, removes their data and exits at once. If tests were skipped for want of a server, Main
// says so.
func Main(m *testing.M) {
	inMain.Store(true)
	go exitOnSignal()
	code := m.Run()
	skipped.report(os.Stderr)
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

// Leaks are the goroutines of this package that run on after a test, for leaktest.None(t, testenv.Leaks()...). A
// connection of this package that once took 15 ms to write keeps a reader of pgx until it reads again. A pool that a
// test leaves open is found all the same, by the goroutine that checks its connections.
func Leaks() []goleak.Option {
	const pkg = "github.com/holdfast-go/holdfast/internal/test/testenv."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(pkg + "exitOnSignal"),
		goleak.IgnoreAnyFunction(pkg + "launch"),
		goleak.IgnoreAnyFunction(pkg + "(*child).wait"),
		goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead"),
	}
}

// Start starts a PostgreSQL and a Redis. env makes the tests of other processes use them. stop stops both and removes
// their data.
func Start() (env []string, stop func() error, err error) {
	if err := os.Unsetenv(templateEnv); err != nil { // it may be of another version
		return nil, nil, err
	}
	for _, e := range []engine{postgresEngine{}, redisEngine{}} {
		d, err := startDaemon(e, Options{})
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		variable, _ := e.variable()
		env = append(env, variable+"="+d.url())
	}
	dir, err := template()
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return append(env, templateEnv+"="+dir), closeAll, nil
}

// server returns the URL that the variable of e holds. Without it, no test uses or starts a server of that kind. This
// includes servers of the test's own. So the caller of go test decides, and not what is installed.
func server(e engine) (string, error) {
	variable, kind := e.variable()
	if url := os.Getenv(variable); url != "" {
		return url, nil
	}
	return "", fmt.Errorf("%w: the test needs %s: run make test, or set %s as make db-up says",
		errUnavailable, kind, variable)
}

// must ends the test if err is not nil. If a server is not available and the test is not required, must skips the test.
func must(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errUnavailable) && os.Getenv(requiredEnv) != "1":
		tb.Cleanup(func() {
			if tb.Skipped() {
				skipped.add(err)
			}
		})
		tb.Skip("testenv:", err)
	default:
		tb.Fatal("testenv:", err)
	}
}

// skipped counts the tests that were skipped, by reason.
var skipped skips

type skips struct {
	mu      sync.Mutex // protects following field
	reasons map[string]int
}

func (s *skips) add(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons == nil {
		s.reasons = make(map[string]int)
	}
	s.reasons[reason.Error()]++
}

func (s *skips) report(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(s.reasons)) {
		fmt.Fprintf(w, "testenv: %d tests skipped: %s\n", s.reasons[reason], reason)
	}
}

func needMain(tb testing.TB) {
	tb.Helper()
	if !inMain.Load() {
		tb.Fatal("testenv: the package needs func TestMain(m *testing.M) { testenv.Main(m) }")
	}
}
