package lock

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// Memory is a [Locker] for the goroutines of one process: first come, first served. The zero value is ready.
// Memory never grants a key before the owner unlocks it, so its locks are never lost.
type Memory struct {
	queues queue.Keyed
}

var _ Locker = (*Memory)(nil)

// Lock waits until all earlier callers for key are gone. If ctx ends first, Lock returns the cause of ctx.
func (m *Memory) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	if err := m.queues.Enter(ctx, key); err != nil {
		return nil, nil, err
	}
	return m.held(ctx, key)
}

// TryLock takes a free key. If the key is taken, TryLock returns [ErrHeld].
func (m *Memory) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if !m.queues.TryEnter(key) {
		return nil, nil, ErrHeld
	}
	return m.held(ctx, key)
}

// A hold is one ownership of a key, from its grant to unlock.
type hold struct {
	memory *Memory
	key    string
	cancel context.CancelFunc
	over   atomic.Bool
}

func (m *Memory) held(ctx context.Context, key string) (context.Context, func(), error) {
	held, cancel := context.WithCancel(ctx)
	return held, (&hold{memory: m, key: key, cancel: cancel}).unlock, nil
}

func (h *hold) unlock() {
	if h.over.CompareAndSwap(false, true) {
		h.cancel()
		h.memory.queues.Leave(h.key)
	}
}
