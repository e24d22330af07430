package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const want = `process 1: ann@example.com signs up
  creates the user
  process 1 is gone while the run sleeps: signal: killed
process 2: goes on when the run is due
  sends the mail "welcome" to ann@example.com
  the run waits for ann, who clicks the link:
  $ curl -sH 'Authorization: me' --json '{"userId": "u-42"}' …/signals/verify
  consumed
the run is completed: u-42. Steps that ran a second time: 0
`

// It says what it does, and leaves nothing behind.
func TestOnboarding(t *testing.T) {
	program := filepath.Join(t.TempDir(), "onboarding")
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
