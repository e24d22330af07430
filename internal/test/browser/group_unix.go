//go:build unix

package browser

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd and its children a group of processes.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills cmd and its children.
func killGroup(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // they may have ended
}
