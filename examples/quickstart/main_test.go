package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const want = `process 1: a user asks Where is my order?
  step 1: looks the order up
  step 2: writes an answer about order A-1042
  process 1 is gone: signal: killed
process 2: starts, and resumes what is in flight
  step 2: writes an answer about order A-1042
  turn 0 is settled: Order A-1042 is on its way.
  the user asks once more, and nothing runs (replayed: true): Order A-1042 is on its way.
step 1 ran 1×, step 2 ran 2×: what was saved before the kill was not done again
`

// It says what it does, and leaves nothing behind.
func TestQuickstart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+temp), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Error(err)
	}
	if string(out) != want {
		t.Errorf("it says\n%swant\n%s", out, want)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
