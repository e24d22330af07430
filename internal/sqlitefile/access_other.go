//go:build !(darwin || freebsd || linux || netbsd || openbsd)

package sqlitefile

// writable returns nil: this system offers no cheap check.
func writable(string) error { return nil }
