package bubble_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/bubble"
)

// Only goroutines of the bubble count, and each of them.
func TestGoroutines(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	other := func(n int) {
		for range n {
			go func() { <-done }()
		}
	}
	synctest.Test(t, func(t *testing.T) {
		before := bubble.Goroutines(t)
		for range 1000 {
			go time.Sleep(time.Minute)
		}
		synctest.Wait()
		if more := bubble.Goroutines(t) - before; more != 1000 {
			t.Errorf("%d goroutines more, want 1000", more)
		}
		time.Sleep(time.Hour)
		if more := bubble.Goroutines(t) - before; more != 0 {
			t.Errorf("%d goroutines are left", more)
		}
	})
	other(20)
	synctest.Test(t, func(t *testing.T) {
		before := bubble.Goroutines(t)
		if before > 5 {
			t.Errorf("%d goroutines in a bubble of one", before)
		}
	})
}
