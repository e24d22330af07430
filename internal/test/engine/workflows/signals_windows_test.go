package workflows_test

import "syscall"

// Windows stops no process by a signal. The tests are compiled there, and not run.
const (
	sigStop = syscall.Signal(0x13)
	sigCont = syscall.Signal(0x12)
)
