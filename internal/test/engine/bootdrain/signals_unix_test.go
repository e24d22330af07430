//go:build unix

package bootdrain_test

import "syscall"

// These stop a process, and let it go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
