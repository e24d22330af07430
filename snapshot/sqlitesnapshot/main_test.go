package sqlitesnapshot_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testenv"
)

// These variables of the environment make the test binary one of several processes on a file.
const (
	roleEnv = "HOLDFAST_TEST_SQLITE_SNAPSHOT_ROLE"
	dsnEnv  = "HOLDFAST_TEST_SQLITE_SNAPSHOT_DSN"
)

var roles = map[string]func(dsn string, out io.Writer) error{"contend": contend, "turns": turnsForever}

func TestMain(m *testing.M) {
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

// A child is another process that runs a role. It is killed before the test ends.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func start(t *testing.T, role, dsn string) child {
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
	return child{c, bufio.NewScanner(out)}
}
