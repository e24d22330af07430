package lock

import (
	"container/list"
	"context"
	"sync"
)

// Memory is a [Locker] for the goroutines of one process: first come, first served. The zero value is ready.
// It grants nothing to others before unlock, so its locks are never lost.
type Memory struct {
	mu     sync.Mutex
	queues map[string]*list.List // by held key: the waiters in order of arrival, each a chan struct{}
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
	ready := turn.Value.(chan struct{})
	select {
	case <-ready:
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

func (m *Memory) held(ctx context.Context, key string) (context.Context, func(), error) {
	held, cancel := context.WithCancel(ctx)
	return held, sync.OnceFunc(func() {
		cancel()
		m.pass(key)
	}), nil
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
		m.queues = make(map[string]*list.List)
	}
	m.queues[key] = list.New()
	return true
}

// arrive takes the key, or joins its queue and returns the place in it.
func (m *Memory) arrive(key string) *list.Element {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.takeLocked(key) {
		return nil
	}
	return m.queues[key].PushBack(make(chan struct{}))
}

// pass gives the key to the first in its queue.
func (m *Memory) pass(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passLocked(key)
}

func (m *Memory) passLocked(key string) {
	q := m.queues[key]
	first := q.Front()
	if first == nil {
		delete(m.queues, key)
		return
	}
	close(q.Remove(first).(chan struct{}))
}

// leave gives up a place, and the key if it was granted meanwhile.
func (m *Memory) leave(key string, place *list.Element) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-place.Value.(chan struct{}):
		m.passLocked(key)
	default:
		m.queues[key].Remove(place)
	}
}
