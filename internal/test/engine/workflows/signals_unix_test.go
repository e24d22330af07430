//go:build unix

package workflows_test

import "syscall"

// These stop a process, and let it go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
