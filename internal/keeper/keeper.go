// Package keeper keeps what a locker holds: it renews all locks of a process from one goroutine, and ends the context
// of a lock before another caller could get it.
package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A Held names a lock and the token that proves it is ours.
type Held struct{ Key, Token string }

// A Renewer extends locks for ttl, counted by the server. It returns those that it has extended and those that are
// ours no more; of the others it could not find out.
type Renewer func(ctx context.Context, ttl time.Duration, held []Held) (renewed, lost []Held)

// A Keeper keeps the locks of one locker. Its goroutine lives while a lock is held.
type Keeper struct {
	ttl   time.Duration
	renew Renewer

	mu    sync.Mutex // protects following fields
	locks map[Held]*kept
	stop  context.CancelFunc // of the goroutine; nil if none runs
	done  chan struct{}
}

// kept is a lock that is held, and the timer that ends it.
type kept struct {
	lose  context.CancelCauseFunc
	timer *time.Timer
	gone  bool // the server said so, or it may be; it is not renewed any more
}

func (l *kept) end() {
	l.gone = true
	l.lose(lock.ErrLost)
}

// New returns a keeper of locks that their server forgets after ttl.
func New(ttl time.Duration, renew Renewer) *Keeper {
	return &Keeper{ttl: ttl, renew: renew, locks: make(map[Held]*kept)}
}

// trusted is how long a lock counts as ours after a request for it was sent: the rest is for clocks of different speed
// and for what is under way when it ends.
func (k *Keeper) trusted() time.Duration { return k.ttl - k.ttl/8 }

// Keep renews h, which was granted to a request sent at sent, until drop is called. held ends with cause lock.ErrLost
// when h is lost, or may be. drop may be called more than once.
func (k *Keeper) Keep(ctx context.Context, h Held, sent time.Time) (held context.Context, drop func()) {
	held, lose := context.WithCancelCause(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	l := &kept{lose: lose}
	l.timer = time.AfterFunc(time.Until(sent.Add(k.trusted())), func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		l.end()
	})
	k.locks[h] = l
	if k.stop == nil {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		k.stop, k.done = stop, make(chan struct{})
		go k.run(running, k.done)
	}
	return held, sync.OnceFunc(func() {
		lose(nil)
		k.drop(h)
	})
}

// drop forgets h. The last one waits for the goroutine to end.
func (k *Keeper) drop(h Held) {
	k.mu.Lock()
	k.locks[h].timer.Stop()
	delete(k.locks, h)
	var done chan struct{}
	if len(k.locks) == 0 {
		k.stop()
		k.stop, done = nil, k.done
	}
	k.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (k *Keeper) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	pause := k.ttl / 3
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = k.ttl / 3
		if !k.renewAll(ctx) {
			pause = k.ttl / 12 // there is time for a few more before the first is lost
		}
	}
}

// renewAll reports whether it is known of all locks whether they are still ours.
func (k *Keeper) renewAll(ctx context.Context) bool {
	k.mu.Lock()
	var held []Held
	for h, l := range k.locks {
		if !l.gone {
			held = append(held, h)
		}
	}
	k.mu.Unlock()
	if len(held) == 0 {
		return true
	}

	sent := time.Now()
	short, cancel := context.WithTimeout(ctx, k.ttl/3)
	defer cancel()
	renewed, lost := k.renew(short, k.ttl, held)

	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range renewed {
		if l := k.locks[h]; l != nil && l.timer.Stop() {
			l.timer.Reset(time.Until(sent.Add(k.trusted())))
		}
	}
	for _, h := range lost {
		if l := k.locks[h]; l != nil {
			l.end()
		}
	}
	return len(renewed)+len(lost) == len(held)
}
