package lock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Memory is a [Locker] for the goroutines of one process: first come, first served. The zero value is ready.
// It grants nothing to others before unlock, so its locks are never lost.
type Memory struct {
	mu     sync.Mutex                 // protects following field
	queues map[string][]chan struct{} // by held key: the waiters in order of arrival
}

var _ Locker = (*Memory)(nil)

// Lock waits for its turn.
func (m *Memory) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	turn := m.arrive(key)
	if turn == nil {
		return m.held(ctx, key)
	}
	select {
	case <-turn:
		return m.held(ctx, key)
	case <-ctx.Done():
		m.leave(key, turn)
		return nil, nil, context.Cause(ctx)
	}
}

// TryLock takes the key if nobody has it.
func (m *Memory) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if !m.take(key) {
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
		h.memory.pass(h.key)
	}
}

func (m *Memory) take(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.takeLocked(key)
}

func (m *Memory) takeLocked(key string) bool {
	if _, taken := m.queues[key]; taken {
		return false
	}
	if m.queues == nil {
		m.queues = make(map[string][]chan struct{})
	}
	m.queues[key] = nil
	return true
}

// arrive takes the key, or joins its queue and returns what is closed when it is our turn.
func (m *Memory) arrive(key string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.takeLocked(key) {
		return nil
	}
	turn := make(chan struct{})
	m.queues[key] = append(m.queues[key], turn)
	return turn
}

// pass gives the key to the first in its queue.
func (m *Memory) pass(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passLocked(key)
}

func (m *Memory) passLocked(key string) {
	q := m.queues[key]
	if len(q) == 0 {
		delete(m.queues, key)
		return
	}
	m.queues[key] = q[1:]
	close(q[0])
}

// leave gives up a place, and the key if it was granted meanwhile.
func (m *Memory) leave(key string, turn chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-turn:
		m.passLocked(key)
	default:
		m.queues[key] = slices.DeleteFunc(m.queues[key], func(other chan struct{}) bool { return other == turn })
	}
}
