package testenv

import (
	"errors"
	"syscall"
)

// Windows has no signal that stops a process. The tests run there without servers.
const canServe = false

const (
	sigStop = syscall.Signal(-1)
	sigCont = syscall.Signal(-1)
)

func kill(int, syscall.Signal) error { return errors.ErrUnsupported }

func ownGroup(*syscall.SysProcAttr) {}

func asUser(int, int) *syscall.SysProcAttr { return nil }
