package pglocker

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// waiters wakes waiters when its connection hears an unlock. The connection is open while at least one waiter waits.
type waiters struct {
	ear pgstate.Ear

	mu      sync.Mutex // protects following fields
	waiting map[string]map[chan struct{}]struct{}
}

func newWaiters(o *Options, channel string) *waiters {
	w := &waiters{waiting: make(map[string]map[chan struct{}]struct{})}
	w.ear.Open, w.ear.Channel, w.ear.Log, w.ear.Heard, w.ear.Tuned = o.Listen, channel, o.Logger, w.heard, w.tuned
	w.ear.Lost = "connection that wakes waiters failed: they poll until it is back"
	return w
}

// join registers the caller to be woken for name, until it calls leave. woken may also fire without a reason.
func (w *waiters) join(ctx context.Context, name string) (woken <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	if w.waiting[name] == nil {
		w.waiting[name] = make(map[chan struct{}]struct{})
	}
	w.waiting[name][c] = struct{}{}
	w.mu.Unlock()
	w.ear.Join(ctx)
	return c, func() { w.leave(name, c) }
}

// leave removes a waiter.
func (w *waiters) leave(name string, c chan struct{}) {
	w.mu.Lock()
	delete(w.waiting[name], c)
	if len(w.waiting[name]) == 0 {
		delete(w.waiting, name)
	}
	w.mu.Unlock()
	w.ear.Leave()
}

// heard wakes those who wait for name.
func (w *waiters) heard(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake(w.waiting[name])
}

// tuned wakes all waiters, so that each asks again: unlocks may have gone unheard.
func (w *waiters) tuned(bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cs := range w.waiting {
		wake(cs)
	}
}

func wake(cs map[chan struct{}]struct{}) {
	for c := range cs {
		select {
		case c <- struct{}{}:
		default: // already woken
		}
	}
}
