package lock

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// Memory is a [Locker] for the goroutines of one process: first come, first served. The zero value is ready.
// It grants nothing to others before unlock, so its locks are never lost.
type Memory struct {
	queues queue.Keyed
}

var _ Locker = (*Memory)(nil)

// Lock waits for its turn.
func (m *Memory) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	if err := m.queues.Enter(ctx, key); err != nil {
		return nil, nil, err
	}
	return m.held(ctx, key)
}

// TryLock takes the key if nobody has it.
func (m *Memory) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if !m.queues.TryEnter(key) {
		return nil, nil, ErrHeld
	}
	return m.held(ctx, key)
}

// A hold is one time that a key is held.
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
