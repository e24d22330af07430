package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/queue"
)

var errEnough = errors.New("enough")

// The tests of lock.Memory, which uses Keyed, test the order and much more.
func TestKeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k queue.Keyed
		if !k.TryEnter("a") || !k.TryEnter("b") {
			t.Fatal("nobody is in")
		}
		if k.TryEnter("a") {
			t.Fatal("let in twice")
		}
		gone, giveUp := context.WithCancelCause(t.Context())
		first := make(chan error, 1)
		go func() { first <- k.Enter(gone, "a") }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { second <- k.Enter(t.Context(), "a") }()
		synctest.Wait()
		giveUp(errEnough)
		if err := <-first; !errors.Is(err, errEnough) {
			t.Errorf("gave up: %v", err)
		}
		k.Leave("a")
		if err := <-second; err != nil {
			t.Errorf("next in line: %v", err)
		}
		k.Leave("a")
		if err := k.Enter(gone, "a"); !errors.Is(err, errEnough) {
			t.Errorf("with a context that is over: %v", err)
		}
		if !k.TryEnter("a") {
			t.Error("nobody is in any more")
		}
	})
}
