// Package bubble looks into the bubbles of testing/synctest.
package bubble

import (
	"bytes"
	"runtime"
	"testing"
)

// Goroutines counts the goroutines of the bubble in which t runs. runtime.NumGoroutine counts those of the whole
// process, also what an earlier test has left to end.
func Goroutines(t testing.TB) int {
	t.Helper()
	stacks := stacks()
	own, _, _ := bytes.Cut(stacks, []byte("\n")) // the caller's is the first
	at := bytes.Index(own, []byte(", synctest bubble "))
	if at < 0 {
		t.Fatal("bubble: this is not a bubble of testing/synctest")
	}
	mark := own[at:] // up to "]:", so bubble 1 is not bubble 11
	n := 0
	for line := range bytes.Lines(stacks) {
		if bytes.HasPrefix(line, []byte("goroutine ")) && bytes.HasSuffix(bytes.TrimSuffix(line, []byte("\n")), mark) {
			n++
		}
	}
	return n
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return buf[:n]
		}
	}
}
