//go:build !(darwin || freebsd || linux || netbsd || openbsd)

package sqlitestore

// writable does not know.
func writable(string) error { return nil }
