// Package redislocker is a [lock.Locker] on Redis. It uses github.com/bsm/redislock.
//
// A lock is a key with an end, by the server's clock. One goroutine renews all locks of a [Locker]. A waiter asks again
// after a pause with full jitter, so waiters get a key in no particular order.
//
// If Redis loses its memory or fails over, it may grant a held lock to another caller. The first owner learns of the
// loss at its next renewal. This is safe: the stores protect their data with fences.
package redislocker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Locker]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string        // begins each key; "" means "holdfast:lock:"
	TTL    time.Duration // how long a dead owner blocks other callers; 0 means 30s
	Poll   time.Duration // the longest pause of a waiter; 0 means 250ms
	Owner  string        // in each lock, for people who look at the keys
	Logger *slog.Logger  // nil means slog.Default()
}

// Locker implements [lock.Locker].
type Locker struct {
	client *redislock.Client
	o      Options
	keeper *keeper.Keeper[*redislock.Lock]
}

var _ lock.Locker = (*Locker)(nil)

// New returns a locker on client.
func New(client redis.UniversalClient, o *Options) *Locker {
	if o == nil {
		o = new(Options)
	}
	l := &Locker{client: redislock.New(client), o: *o}
	l.o.Prefix = cmp.Or(o.Prefix, "holdfast:lock:")
	if l.o.TTL < time.Millisecond { // Redis counts in milliseconds
		l.o.TTL = 30 * time.Second
	}
	l.o.Poll = cmp.Or(max(o.Poll, 0), 250*time.Millisecond)
	l.o.Logger = cmp.Or(o.Logger, slog.Default())
	l.keeper = keeper.New(l.o.TTL, l.renew)
	return l
}

// Lock waits until key is granted or ctx is done. Waiters get the key in no particular order.
func (l *Locker) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	return keeper.Poll(ctx, l.o.Poll, func() (context.Context, func(), error) { return l.TryLock(ctx, key) })
}

// TryLock takes a free key. If the key is taken, TryLock returns [lock.ErrHeld].
func (l *Locker) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	// There is one attempt, so that the lease counts from when the attempt was sent. There is no token of ours: with
	// redislock, a token that begins with another lock's token takes that lock. The options are new for each call,
	// because retry strategies have a memory.
	asking := deadline.After(ctx, deadline.Lingering)
	defer asking.Cancel()
	sent := time.Now()
	granted, err := l.client.Obtain(
		asking,
		l.o.Prefix+key,
		l.o.TTL,
		&redislock.Options{RetryStrategy: redislock.NoRetry(), Metadata: l.o.Owner},
	)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			l.release(ctx, granted)
		}
		return nil, nil, context.Cause(ctx)
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, nil, lock.ErrHeld
	case err != nil:
		return nil, nil, fmt.Errorf("redis: lock: %w", err)
	}
	held, drop := l.keeper.Context(ctx, granted, sent)
	return held, sync.OnceFunc(func() {
		drop()
		l.release(ctx, granted)
	}), nil
}

func (l *Locker) release(ctx context.Context, granted *redislock.Lock) {
	ctx, cancel := keeper.Releasing(ctx)
	defer cancel()
	switch err := granted.Release(ctx); {
	case errors.Is(err, redislock.ErrLockNotHeld):
		l.o.Logger.DebugContext(ctx, "unlock did nothing: the lock had ended before", "key", granted.Key())
	case err != nil:
		l.o.Logger.WarnContext(ctx, "unlock failed: the lock ends with its TTL",
			"key", granted.Key(), "ttl", l.o.TTL, "err", err)
	}
}

// renewers is how many goroutines renew locks at once.
const renewers = 16

func (l *Locker) renew(
	ctx context.Context, ttl time.Duration, all []*redislock.Lock, report keeper.Report[*redislock.Lock],
) (known bool) {
	var mu sync.Mutex // protects following fields
	var failed error
	unknown := 0
	queue := make(chan *redislock.Lock, len(all))
	for _, granted := range all {
		queue <- granted
	}
	close(queue)
	var wg sync.WaitGroup
	for range min(renewers, len(all)) {
		wg.Go(func() {
			for granted := range queue {
				sent, one := time.Now(), []*redislock.Lock{granted}
				switch err := refresh(ctx, granted, ttl); {
				case err == nil:
					report(sent, one, nil)
				case errors.Is(err, redislock.ErrNotObtained):
					report(sent, nil, one)
				default:
					mu.Lock()
					failed = err
					unknown++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if failed != nil && ctx.Err() == nil {
		l.o.Logger.WarnContext(ctx, "renewal of locks failed", "locks", unknown, "err", failed)
	}
	return failed == nil
}

func refresh(ctx context.Context, granted *redislock.Lock, ttl time.Duration) error {
	if ctx.Err() != nil { // no time is left
		return ctx.Err()
	}
	return granted.Refresh(ctx, ttl, &redislock.Options{RetryStrategy: redislock.NoRetry()})
}
