//go:build unix

package turnhttp_test

import "syscall"

// openFiles returns how many files this process may open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // other systems have other types
}
