//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is the command under test, built by TestMain.
var program string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "run-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "run")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s", out)
		return 1
	}
	return m.Run()
}

const printURLs = `echo "$HOLDFAST_POSTGRES $HOLDFAST_REDIS $HOLDFAST_TEST_REQUIRED"; `

// serve is run for a command that starts servers.
func serve(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	if os.Getenv("HOLDFAST_POSTGRES") == "" || os.Getenv("HOLDFAST_REDIS") == "" {
		t.Skip("the test needs PostgreSQL and Redis: run make test")
	}
	return run(t, args...)
}

// run returns the command under test and the directory for its data.
func run(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	// The servers may run as another user.
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stderr = new(bytes.Buffer)
	return cmd, tmp
}

// checkEnd checks that cmd ended with code and left no server and no data.
func checkEnd(t *testing.T, cmd *exec.Cmd, err error, code int, tmp string, urls []string) {
	t.Helper()
	if strings.Contains(fmt.Sprint(cmd.Stderr), "not available here") && os.Getenv("HOLDFAST_TEST_REQUIRED") != "1" {
		t.Skip(cmd.Stderr)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, cmd.Stderr)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	for _, s := range urls {
		if u, err := url.Parse(s); err != nil || dial(u.Host) == nil {
			t.Errorf("the server %s is still there, %v", s, err)
		}
	}
}

func dial(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		conn.Close()
	}
	return err
}

func TestExitCode(t *testing.T) {
	for script, code := range map[string]int{
		"exit 0": 0, "exit 3": 3, "kill -9 $$": 137,
		"sleep 1000 & exit 4": 4, // run ends the background process
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			cmd, tmp := serve(t, "--", "sh", "-c", printURLs+script)
			out, err := cmd.Output()
			urls := strings.Fields(string(out))
			checkEnd(t, cmd, err, code, tmp, urls[:min(2, len(urls))])
			if len(urls) != 3 || urls[2] != "1" {
				t.Errorf("environment: %s", out)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"-serve", "--", "true"}, {"-setup", "-serve"}, {"-setup", "--", "true"}} {
		cmd, tmp := run(t, args...)
		checkEnd(t, cmd, cmd.Run(), 2, tmp, nil)
	}
}

func TestInterrupt(t *testing.T) {
	trap := `trap 'echo caught; exit 7' INT TERM; ` + printURLs + `while :; do sleep 0.1; done`
	for _, tt := range []struct {
		name   string
		args   []string
		signal os.Signal
		code   int
		output string
	}{
		{"command", []string{"--", "sh", "-c", trap}, os.Interrupt, 7, "caught\n"},
		{"terminated command", []string{"--", "sh", "-c", trap}, syscall.SIGTERM, 7, "caught\n"},
		{"command without trap", []string{"--", "sh", "-c", printURLs + "sleep 1000"}, syscall.SIGTERM, 143, ""},
		{"serve", []string{"-serve"}, os.Interrupt, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd, tmp := serve(t, tt.args...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill() })
			r := bufio.NewReader(stdout)
			urls := readURLs(t, r, tt.args[0] == "-serve")
			if len(urls) == 2 {
				for _, s := range urls {
					if u, err := url.Parse(s); err != nil || dial(u.Host) != nil {
						t.Errorf("no server at %s", s)
					}
				}
				if err := cmd.Process.Signal(tt.signal); err != nil {
					t.Fatal(err)
				}
			}
			time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			rest, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			checkEnd(t, cmd, cmd.Wait(), tt.code, tmp, urls)
			if string(rest) != tt.output {
				t.Errorf("output %q, want %q", rest, tt.output)
			}
		})
	}
}

// readURLs reads the two URLs from the output of printURLs, or from the two exports of -serve.
func readURLs(t *testing.T, r *bufio.Reader, serve bool) []string {
	t.Helper()
	var urls []string
	lines := 1
	if serve {
		lines = 3 // the third names a directory
	}
	for range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil // checkEnd reports the error
		}
		for _, f := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" '\n", r) }) {
			if name, u, ok := strings.Cut(f, "="); ok && strings.HasPrefix(name, "HOLDFAST_") {
				f = u
			}
			if strings.Contains(f, "://") {
				urls = append(urls, f)
			}
		}
	}
	return urls
}

// With -memory, temporary files are in memory, if there is enough. They are gone when the command ends.
func TestMemory(t *testing.T) {
	t.Parallel()
	cmd, tmp := serve(t, "-memory", "--", "sh", "-c", `echo "$TMPDIR" && touch "$TMPDIR/file"`)
	out, err := cmd.Output()
	checkEnd(t, cmd, err, 0, tmp, nil)
	dir := strings.TrimSpace(string(out))
	if dir != tmp && !strings.HasPrefix(dir, "/dev/shm/") {
		t.Errorf("temporary files are in %q", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
}
