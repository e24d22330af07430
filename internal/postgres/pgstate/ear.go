package pgstate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/keeper"
)

const (
	// quiet is how long the connection may hear nothing before the server is asked whether it is there.
	quiet = time.Minute

	// earPause bounds what an Ear asks the server, and its pauses while it cannot connect.
	earPause = 5 * time.Second
)

// An Ear hears the notifications of a channel. Its connection is open, and its goroutine runs, while at least one
// caller has joined.
type Ear struct {
	Open    func(context.Context) (*pgx.Conn, error)
	Channel string
	Heard   func(payload string)
	Tuned   func(hears bool) // called when the connection has begun to hear, and when it hears no more
	Log     *slog.Logger
	Lost    string // logged when the connection fails

	mu     sync.Mutex // protects following fields
	joined int
	hears  bool
	// stop ends the goroutine. It is nil if none runs.
	stop context.CancelFunc
	done chan struct{}
}

// Hears reports whether the connection would hear a notification.
func (e *Ear) Hears() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hears
}

// Join lets the ear hear until the caller calls Leave.
func (e *Ear) Join(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.joined++; e.stop == nil {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		e.stop, e.done = stop, make(chan struct{})
		go e.run(running, e.done)
	}
}

// Leave undoes one Join. If it was the last one, Leave ends the goroutine and waits for its end.
func (e *Ear) Leave() {
	e.mu.Lock()
	var done chan struct{}
	if e.joined--; e.joined == 0 {
		e.stop()
		e.stop, done = nil, e.done
	}
	e.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (e *Ear) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	keeper.Reconnect(ctx, earPause, func() bool {
		heard, err := e.hear(ctx, done)
		if ctx.Err() == nil {
			e.Log.WarnContext(ctx, e.Lost, "err", err)
		}
		return heard
	})
}

// hear passes on notifications until the connection fails or ctx ends. It reports whether it ever listened.
func (e *Ear) hear(ctx context.Context, done chan struct{}) (heard bool, err error) {
	conn, err := e.Open(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{e.Channel}.Sanitize()); err != nil {
		return false, err
	}
	e.tune(done, true) // what was notified before LISTEN went unheard
	defer e.tune(done, false)
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			e.Heard(n.Payload)
		case ctx.Err() != nil || conn.IsClosed():
			return true, err
		default:
			asking, cancel := context.WithTimeout(ctx, earPause)
			err := conn.Ping(asking)
			cancel()
			if err != nil {
				return true, err
			}
		}
	}
}

// tune notes whether the connection hears. If another goroutine has taken the place of the one that will close done,
// tune does nothing.
func (e *Ear) tune(done chan struct{}, hears bool) {
	e.mu.Lock()
	ours := e.done == done
	if ours {
		e.hears = hears
	}
	e.mu.Unlock()
	if ours {
		e.Tuned(hears)
	}
}

// ChannelOf returns the name of a table as the name of a channel. PostgreSQL cuts names off at 63 bytes.
func ChannelOf(table string) string { return table[max(0, len(table)-63):] }
