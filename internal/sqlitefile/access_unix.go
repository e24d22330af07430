//go:build darwin || freebsd || linux || netbsd || openbsd

package sqlitefile

import "syscall"

// writable returns why a process may not write to a file or a directory. It does not open the file, because closing the
// file again would drop SQLite's locks on it.
func writable(path string) error {
	const mayWrite = 2
	return syscall.Access(path, mayWrite)
}
