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

// A Keeper keeps the locks of one locker. It renews them from one goroutine, which runs only when it is time to, and not
// at all for locks that are given back before.
type Keeper struct {
	ttl   time.Duration
	renew Renewer

	mu      sync.Mutex // protects following fields
	locks   map[Held]*kept
	next    *time.Timer        // of the renewal; nil while nothing is held
	running chan struct{}      // closed when the renewal under way has ended; nil if none is
	cancel  context.CancelFunc // of the renewal under way
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
	if k.next == nil {
		k.next = time.AfterFunc(k.ttl/3, k.tick)
	}
	return held, sync.OnceFunc(func() {
		lose(nil)
		k.drop(h)
	})
}

// drop forgets h. The last one waits for a renewal that is under way.
func (k *Keeper) drop(h Held) {
	k.mu.Lock()
	k.locks[h].timer.Stop()
	delete(k.locks, h)
	var running chan struct{}
	if len(k.locks) == 0 {
		k.next.Stop()
		k.next = nil
		if running = k.running; running != nil {
			k.cancel()
		}
	}
	k.mu.Unlock()
	if running != nil {
		<-running
	}
}

// tick renews, unless all was given back, and sets the time for the next renewal.
func (k *Keeper) tick() {
	k.mu.Lock()
	if k.next == nil || k.running != nil {
		k.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.ttl/3) // it is for all locks, and no caller's
	running := make(chan struct{})
	k.running, k.cancel = running, cancel
	k.mu.Unlock()

	pause := k.ttl / 3
	if !k.renewAll(ctx) {
		pause = k.ttl / 12 // there is time for a few more before the first is lost
	}
	cancel()

	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = nil
	close(running)
	if k.next != nil {
		k.next.Reset(pause)
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
	renewed, lost := k.renew(ctx, k.ttl, held)

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
