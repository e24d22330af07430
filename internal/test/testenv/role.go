package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// These variables make the test binary one of several processes that share a database.
const (
	roleEnv  = "HOLDFAST_TEST_ROLE"
	whereEnv = "HOLDFAST_TEST_ROLE_WHERE"
)

// A Role is the work of another process. where is the database. It writes to out what the test has to know.
type Role func(where string, out io.Writer) error

// MainWith is Main for a package whose tests start processes. It runs the role that StartRole asks for, or the tests.
func MainWith(m *testing.M, roles map[string]Role) {
	role, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		Main(m)
	}
	if err := role(os.Getenv(whereEnv), os.Stdout); err != nil {
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

// StartRole starts a process that runs a role.
func StartRole(t *testing.T, role, where string) Child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), roleEnv+"="+role, whereEnv+"="+where)
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
