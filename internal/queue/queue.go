// Package queue lets the goroutines of a process in one at a time.
package queue

import (
	"context"
	"slices"
	"sync"
)

// Keyed are the queues before what is named by a key, for each key that somebody has: first come, first served. The zero
// value is ready.
type Keyed struct {
	mu     sync.Mutex                 // protects following field
	queues map[string][]chan struct{} // by key: who waits, in order of arrival
}

// TryEnter lets the caller in if nobody is.
func (k *Keyed) TryEnter(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.take(key)
}

// Enter waits for its turn, or for the end of ctx, whose cause it returns.
func (k *Keyed) Enter(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
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
		return context.Cause(ctx)
	}
}

// Leave lets the next one in.
func (k *Keyed) Leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pass(key)
}

// arrive takes the key, or joins its queue and returns what is closed when it is our turn.
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

// giveUp leaves the queue, and lets the next one in if it was our turn meanwhile.
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
