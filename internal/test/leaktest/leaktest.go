// Package leaktest finds goroutines that tests have left. One that is about to end has the time that it may need on a
// busy machine.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is for how long goroutines may take to end.
const patience = 30 * time.Second

// Main runs the tests of a package, and ends the process. It fails if a goroutine is left.
func Main(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests are those of a package, with their goroutines.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	if code == 0 {
		await(nil)
	}
	return code
}

// None fails a test if a goroutine is left, but for those that are ignored.
func None(tb testing.TB, ignored ...goleak.Option) {
	tb.Helper()
	await(ignored)
	goleak.VerifyNone(tb, ignored...)
}

// await waits until no goroutine is left, for so long as they may take.
func await(ignored []goleak.Option) {
	for late := time.Now().Add(patience); goleak.Find(ignored...) != nil && time.Now().Before(late); {
	}
}
