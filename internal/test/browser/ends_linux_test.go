package browser_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/browser"
)

const childEnv = "HOLDFAST_TEST_BROWSER_CHILD"

// The browser ends with its test.
func TestEnds(t *testing.T) {
	pid := 0
	t.Run("browser", func(t *testing.T) {
		b := browser.Start(t)
		pid = b.PID()
		if os.Getenv(childEnv) != "" {
			fmt.Printf("\nbrowser %d %s\n", pid, b.Profile())
			select {} // until it is killed
		}
	})
	if pid != 0 {
		awaitGone(t, pid)
	}
}

// The browser ends when the process of its test is killed.
func TestEndsWithProcess(t *testing.T) {
	if _, err := exec.LookPath(browser.Program); err != nil {
		browser.Start(t) // which says what is missing
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestEnds$/^browser$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, profile := 0, ""
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		fmt.Sscanf(lines.Text(), "browser %d %s", &pid, &profile) //nolint:errcheck // pid is 0
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	if pid == 0 {
		t.Fatal("the child did not say its browser")
	}
	awaitGone(t, pid)
	if err := os.RemoveAll(profile); err != nil {
		t.Error(err)
	}
}

// awaitGone waits until no process of a group is left.
func awaitGone(t *testing.T, group int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		if left = processes(t, group); len(left) == 0 {
			return
		}
	}
	t.Errorf("processes of the browser are left: %q", left)
}

// processes returns what /proc says of the processes of a group that have not ended.
func processes(t *testing.T, group int) (list []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		var state string
		var parent, pgrp int
		_, rest, _ := strings.Cut(string(stat), ") ")
		fmt.Sscan(rest, &state, &parent, &pgrp) //nolint:errcheck // then pgrp is 0
		if pgrp == group && state != "Z" {
			list = append(list, string(stat))
		}
	}
	return list
}
