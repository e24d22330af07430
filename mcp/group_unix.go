//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the command a process group of its own: an interrupt from the terminal is for the program, which may
// still need the server for a while.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup kills the command, and what it has started in its group.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
