//go:build !linux

package testenv

import (
	"errors"
	"fmt"
	"syscall"
)

// On systems other than Linux, children may outlive a killed parent, and signals reach a server without its children.

func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func processState(pid int) byte {
	if kill(pid, 0) != nil {
		return 0
	}
	return 'T'
}

func children(int) []int { return nil }

func mountTmpfs(string, int, int, int) error {
	return fmt.Errorf("%w: a disk of limited size needs Linux", errUnavailable)
}

func mountReadOnly(string) error {
	return fmt.Errorf("%w: a read-only mount needs Linux", errUnavailable)
}

func unmount(string) error { return errors.ErrUnsupported }
