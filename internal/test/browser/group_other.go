//go:build !unix

package browser

import "os/exec"

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) {
	cmd.Process.Kill() //nolint:errcheck // it may have ended
}
