package sqlitetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// These variables make the test binary one of several processes on a file.
const (
	roleEnv = "HOLDFAST_TEST_SQLITE_ROLE"
	dsnEnv  = "HOLDFAST_TEST_SQLITE_DSN"
)

// A Role is the work of another process with a database. It writes to out what the test has to know.
type Role func(dsn string, out io.Writer) error

// Main is for TestMain. It runs the role that Start asks for, or the tests.
func Main(m *testing.M, roles map[string]Role) {
	role, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		testenv.Main(m)
	}
	if err := role(os.Getenv(dsnEnv), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Child is another process that runs a role. It is killed before the test ends.
type Child struct {
	Cmd *exec.Cmd
	Out *bufio.Scanner
}

// Start starts a process that runs a role.
func Start(t *testing.T, role, dsn string) Child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), roleEnv+"="+role, dsnEnv+"="+dsn)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return Child{c, bufio.NewScanner(out)}
}
