//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
)

// asNobody starts the program as a user who may not write to the folder. Root may write everywhere.
func asNobody(t *testing.T, dir string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "refundbot")
	raw, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, raw, 0o755); err != nil { //nolint:gosec // others run it
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(program), filepath.Dir(filepath.Dir(program)), filepath.Dir(dir)} {
		if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // others run it
			t.Fatal(err)
		}
	}
	const nobody = 65534
	cmd := exec.CommandContext(t.Context(), program, "-demo=false", "-addr", "127.0.0.1:0", "-data", dir)
	cmd.Dir, cmd.Env = "/", environment(stores.Config{})
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "permission denied") {
		t.Errorf("status %d\n%s", cmd.ProcessState.ExitCode(), out)
	}
}
