package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestProcesses(t *testing.T) {
	locktest.RunWatcher(t, func(*testing.T) lock.Watcher { return new(lock.Processes) })
	locktest.RunBeater(t, func(*testing.T) lock.Beater { return new(lock.Processes) })
}

// A watch ends at its time.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(lock.Processes)
		watch := func(process string, want time.Duration) {
			t.Helper()
			if left, err := p.Watch(t.Context(), "bot", "1", process, time.Minute); left != want || err != nil {
				t.Errorf("%s: %v left, want %v: %v", process, left, want, err)
			}
		}
		watch("a", 0)
		time.Sleep(time.Minute - 1)
		watch("b", 1)
		time.Sleep(time.Nanosecond)
		watch("b", 0)
		watch("a", time.Minute)
	})
}

func TestHeldError(t *testing.T) {
	if got := new(lock.HeldError).Error(); got != lock.ErrHeld.Error() {
		t.Errorf("without an owner: %q", got)
	}
	if got := (&lock.HeldError{Owner: "a"}).Error(); got != lock.ErrHeld.Error()+": a" {
		t.Errorf("with an owner: %q", got)
	}
}
