//go:build !unix

package turnhttp_test

// openFiles returns how many files this process may open.
func openFiles() uint64 { return 1 << 20 }
