// Package queue lets the goroutines of a process in one at a time.
package queue

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Keyed has a queue for each key: first come, first served. The zero value is ready.
type Keyed struct {
	mu sync.Mutex // protects following field
	// queues holds the waiters of each taken key, in order of arrival.
	queues map[string][]chan struct{}
}

// TryEnter takes the key if it is free, and reports whether it did.
func (k *Keyed) TryEnter(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.take(key)
}

// Enter waits until the key is free for the caller. If ctx ends first, Enter returns its cause.
func (k *Keyed) Enter(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return ctxcause.Cause(ctx)
	}
	turn := k.arrive(key)
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		k.giveUp(key, turn)
		return ctxcause.Cause(ctx)
	}
}

// Leave gives the key to the next caller in its queue.
func (k *Keyed) Leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pass(key)
}

// arrive takes the key and returns nil, or joins the queue. Then it returns a channel that is closed when the caller
// has the key.
func (k *Keyed) arrive(key string) chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.take(key) {
		return nil
	}
	turn := make(chan struct{})
	k.queues[key] = append(k.queues[key], turn)
	return turn
}

// giveUp leaves the queue. If the caller got the key meanwhile, giveUp gives it to the next caller.
func (k *Keyed) giveUp(key string, turn chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-turn:
		k.pass(key)
	default:
		k.queues[key] = slices.DeleteFunc(k.queues[key], func(other chan struct{}) bool { return other == turn })
	}
}

func (k *Keyed) take(key string) bool {
	if _, taken := k.queues[key]; taken {
		return false
	}
	if k.queues == nil {
		k.queues = make(map[string][]chan struct{})
	}
	k.queues[key] = nil
	return true
}

func (k *Keyed) pass(key string) {
	q := k.queues[key]
	if len(q) == 0 {
		delete(k.queues, key)
		return
	}
	k.queues[key] = q[1:]
	close(q[0])
}
