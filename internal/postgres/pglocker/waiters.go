package pglocker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/keeper"
)

// waiters wakes waiters when its connection hears an unlock. The connection is open, and its goroutine runs, while at
// least one waiter waits.
type waiters struct {
	open    func(context.Context) (*pgx.Conn, error)
	channel string
	log     *slog.Logger

	mu      sync.Mutex // protects following fields
	waiting map[string]map[chan struct{}]struct{}
	hears   bool
	// stop ends the goroutine. It is nil if none runs.
	stop context.CancelFunc
	done chan struct{}
}

func newWaiters(open func(context.Context) (*pgx.Conn, error), channel string, log *slog.Logger) *waiters {
	return &waiters{open: open, channel: channel, log: log, waiting: make(map[string]map[chan struct{}]struct{})}
}

// live reports whether the connection would hear an unlock.
func (w *waiters) live() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hears
}

// join registers the caller to be woken for name, until it calls leave. woken may also fire without a reason.
func (w *waiters) join(ctx context.Context, name string) (woken <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{}, 1)
	if w.waiting[name] == nil {
		w.waiting[name] = make(map[chan struct{}]struct{})
	}
	w.waiting[name][c] = struct{}{}
	if w.stop == nil {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		w.stop, w.done = stop, make(chan struct{})
		go w.run(running, w.done)
	}
	return c, func() { w.leave(name, c) }
}

// leave removes a waiter. If it was the last one, leave ends the goroutine and waits for its end.
func (w *waiters) leave(name string, c chan struct{}) {
	w.mu.Lock()
	delete(w.waiting[name], c)
	if len(w.waiting[name]) == 0 {
		delete(w.waiting, name)
	}
	var done chan struct{}
	if len(w.waiting) == 0 {
		w.stop()
		w.stop, done = nil, w.done
	}
	w.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (w *waiters) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	keeper.Reconnect(ctx, 5*time.Second, func() bool {
		heard, err := w.hear(ctx, done)
		if ctx.Err() == nil {
			w.log.WarnContext(ctx, "connection that wakes waiters failed: they poll until it is back", "err", err)
		}
		return heard
	})
}

// hear wakes waiters until the connection fails or ctx ends. It reports whether it ever listened.
func (w *waiters) hear(ctx context.Context, done chan struct{}) (listened bool, err error) {
	conn, err := w.open(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{w.channel}.Sanitize()); err != nil {
		return false, err
	}
	// Unlocks before LISTEN went unheard, so every waiter asks again.
	w.tune(done, true)
	defer w.tune(done, false)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		w.mu.Lock()
		wake(w.waiting[n.Payload])
		w.mu.Unlock()
	}
}

// tune records whether the connection hears, and wakes all waiters. If another goroutine has taken the place of the
// one that will close done, tune does nothing.
func (w *waiters) tune(done chan struct{}, hears bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done != done {
		return
	}
	w.hears = hears
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
