package testenv_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

const childEnv = "HOLDFAST_TESTENV_CHILD"

// TestServersDieWithTheProcess runs TestChild in another process. TestChild prints the ids of its servers' processes
// and then does as childEnv says.
func TestChild(t *testing.T) {
	end := os.Getenv(childEnv)
	if end == "" {
		t.Skip("runs only as a child of other tests")
	}
	pg := testenv.StartPostgres(t, nil)
	rdb := testenv.StartRedis(t, nil)
	pooler := testenv.StartPgBouncer(t, pg)
	pids := slices.Concat(pg.Pids(), rdb.Pids(), pooler.Pids())
	if end == "stopped" {
		pg.Stop()
		rdb.Stop()
		pooler.Stop()
	}
	if err := json.NewEncoder(os.Stdout).Encode(pids); err != nil {
		t.Fatal(err)
	}
	if end == "panic" {
		go panic("as asked")
	}
	select {}
}

func TestServersDieWithTheProcess(t *testing.T) {
	for _, tt := range []struct {
		end    string // end of the child
		signal syscall.Signal
		clean  bool // whether no data stays behind
	}{
		{end: "killed", signal: syscall.SIGKILL},
		{end: "stopped", signal: syscall.SIGKILL},
		{end: "panic"},
		{end: "terminated", signal: syscall.SIGTERM, clean: true},
		{end: "interrupted", signal: syscall.SIGINT, clean: true},
	} {
		t.Run(tt.end, func(t *testing.T) {
			t.Parallel()
			tmp := tempDir(t)
			cmd, pids := startChild(t, tt.end, tmp)
			if tt.signal != 0 {
				if err := cmd.Process.Signal(tt.signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the child ended well")
			}
			for _, pid := range pids {
				eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return testenv.Gone(pid) })
			}
			left, err := os.ReadDir(tmp)
			if err != nil || tt.clean && len(left) > 0 {
				t.Errorf("the child left %v, %v", left, err)
			}
		})
	}
}

// startChild runs TestChild and returns the processes of its servers.
func startChild(t *testing.T, end, tmp string) (*exec.Cmd, []int) {
	t.Helper()
	testenv.Need(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), childEnv+"="+end, "TMPDIR="+tmp)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	if err := json.Unmarshal(line, &pids); err != nil {
		if os.Getenv("HOLDFAST_TEST_REQUIRED") == "1" {
			t.Fatalf("the child has no servers: %s", line)
		}
		t.Skipf("the child has no servers: %s", line)
	}
	if len(pids) < 4 {
		t.Fatalf("servers have only the processes %v", pids)
	}
	return cmd, pids
}

// tempDir is like t.TempDir, for servers of another user.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "testenv-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
