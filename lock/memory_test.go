package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// The order of arrival is certain only in a bubble: the next waiter starts when all others are blocked.
func TestMemoryFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(lock.Memory)
		_, unlock, err := m.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 20 {
			go func() {
				_, unlock, err := m.Lock(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				unlock()
			}()
			synctest.Wait()
		}
		unlock()
		synctest.Wait()
		for i, n := range order {
			if n != i {
				t.Fatalf("order %v", order)
			}
		}
		if len(order) != 20 {
			t.Fatalf("%d of 20 waiters got the key", len(order))
		}
	})
}

// If the owner keeps the key for an hour, the waiter loses time and nothing else.
func TestMemoryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(lock.Memory)
		_, unlock, err := m.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, unlock)
		start := time.Now()
		_, unlock, err = m.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("waited %v", waited)
		}
	})
}

// Processes of different versions must agree on the bytes of a key: the bytes never change.
func TestKey(t *testing.T) {
	for _, c := range []struct{ orchestrator, session, key string }{
		{"refund-bot", "A-1042", "10:refund-bot/A-1042"},
		{"a", "b/c", "1:a/b/c"},
		{"a/b", "c", "3:a/b/c"},
		{"é", "😀", "2:é/😀"},
		{"", "", "0:/"},
	} {
		if got := lock.Key(c.orchestrator, c.session); got != c.key {
			t.Errorf("Key(%q, %q) = %q, want %q", c.orchestrator, c.session, got, c.key)
		}
	}
}

func ExampleMemory() {
	var room lock.Memory
	held, unlock, err := room.Lock(context.Background(), lock.Key("refund-bot", "A-1042"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = room.TryLock(context.Background(), lock.Key("refund-bot", "A-1042"))
	fmt.Println(err)
	unlock()
	fmt.Println(held.Err())
	// Output:
	// held by another owner
	// context canceled
}
