//go:build darwin || freebsd || linux || netbsd || openbsd

package sqlitestore

import "syscall"

// writable returns why a process may not write to a file or a directory. Unlike opening the file it leaves the locks
// alone that SQLite has on it.
func writable(path string) error {
	const mayWrite = 2
	return syscall.Access(path, mayWrite)
}
