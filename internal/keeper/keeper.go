// Package keeper renews the things that a process has at a server for a limited time: locks, or leases of sessions. It
// renews all of them together. If one is lost, it tells the owner.
package keeper

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A Renewer extends all for ttl, which the server counts. It calls report with each answer of the server as soon as
// there is one. If something is not known in the end, it returns false, and is asked again soon.
type Renewer[T comparable] func(ctx context.Context, ttl time.Duration, all []T, report Report[T]) (known bool)

// A Report is about a request that was sent at sent. It tells which things the server has extended, and which are lost:
// they have no owner, or another owner.
type Report[T comparable] func(sent time.Time, renewed, lost []T)

// A Keeper renews the things that were given to it. Its one goroutine runs only when it is time to renew. A thing that
// is given back before the first renewal costs no timer.
type Keeper[T comparable] struct {
	ttl   time.Duration
	renew Renewer[T]

	mu   sync.Mutex // protects following fields
	kept map[*Kept[T]]struct{}

	// next is the timer of the renewal; nil if nothing was kept when it last fired.
	next *time.Timer

	// running is closed when the current renewal has ended; nil if there is none.
	running chan struct{}
	cancel  context.CancelFunc // of the current renewal
}

// A Kept is one thing that a Keeper renews. The zero value is ready for Keep. The Keeper's mutex protects it.
type Kept[T comparable] struct {
	what T
	lost func(error)

	// deadline is until when it is trusted. Zero means that it is lost, or was given back.
	deadline time.Time

	// timer fires at the deadline; nil until the first renewal.
	timer *time.Timer

	// settled says that it is renewed no more, even if the server calls it lost.
	settled bool
}

// New returns a Keeper of things that their server forgets after ttl.
func New[T comparable](ttl time.Duration, renew Renewer[T]) *Keeper[T] {
	return &Keeper[T]{ttl: ttl, renew: renew, kept: make(map[*Kept[T]]struct{})}
}

// trusted is for how long a thing counts as ours after the request for it was sent. The rest of ttl is for clocks of
// different speed, and for work that is in progress when trusted ends.
func (k *Keeper[T]) trusted() time.Duration { return k.ttl - k.ttl/8 }

// TooLate reports whether what is granted to a request that was sent at sent is lost when Keep is called.
func (k *Keeper[T]) TooLate(sent time.Time) bool { return time.Since(sent) >= k.trusted() }

// Keep renews the thing what until Drop. The server granted it to a request that was sent at sent. If it is lost, lost
// is called once: with lock.ErrLost if the server says so, with lock.ErrExpired if its time has passed. lost must not
// call the Keeper. If t keeps another thing already, Keep forgets that thing.
func (k *Keeper[T]) Keep(t *Kept[T], what T, sent time.Time, lost func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.stop()
	*t = Kept[T]{what: what, lost: lost, deadline: sent.Add(k.trusted())}
	k.kept[t] = struct{}{}
	if k.next == nil {
		k.next = time.AfterFunc(k.ttl/3, k.tick)
	}
	if time.Until(t.deadline) < k.ttl/3 {
		k.watch(t)
	}
}

// Context keeps the thing what until drop is called. It returns a context that ends with cause lock.ErrLost when the
// thing is lost, or may be lost. drop may be called more than once. It waits for a renewal that nothing else needs.
func (k *Keeper[T]) Context(ctx context.Context, what T, sent time.Time) (held context.Context, drop func()) {
	held, lose := context.WithCancelCause(ctx)
	t := new(Kept[T])
	k.Keep(t, what, sent, func(error) { lose(lock.ErrLost) })
	return held, sync.OnceFunc(func() {
		lose(nil)
		k.Drop(t)
		k.wait()
	})
}

// Settle stops renewing t, because a request in progress replaces t: what the server says of t means nothing any more.
// The deadline of t stays.
func (k *Keeper[T]) Settle(t *Kept[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.settled = true
}

// Check returns lock.ErrExpired once the deadline of t has passed. It looks at the clock: the process may have been
// stopped, so that no timer has fired.
func (k *Keeper[T]) Check(t *Kept[T]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Until(t.deadline) <= 0 {
		return lock.ErrExpired
	}
	return nil
}

// Drop forgets t. It does nothing the second time.
func (k *Keeper[T]) Drop(t *Kept[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.stop()
	*t = Kept[T]{}
	delete(k.kept, t)
}

// wait cancels a renewal of things that were given back, and waits for its end. It does nothing while a thing is kept.
func (k *Keeper[T]) wait() {
	k.mu.Lock()
	running := k.running
	if len(k.kept) > 0 {
		running = nil
	}
	if running != nil {
		k.cancel()
	}
	k.mu.Unlock()
	if running != nil {
		<-running
	}
}

// watch sets the timer of t.
func (k *Keeper[T]) watch(t *Kept[T]) {
	what := t.what
	t.timer = time.AfterFunc(time.Until(t.deadline), func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.what == what && time.Until(t.deadline) <= 0 {
			t.end(lock.ErrExpired)
		}
	})
}

func (t *Kept[T]) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// end tells the owner, once.
func (t *Kept[T]) end(err error) {
	if t.deadline.IsZero() {
		return
	}
	t.stop()
	t.deadline = time.Time{}
	t.lost(err)
}

// tick renews, unless all was given back, and sets the time of the next renewal.
func (k *Keeper[T]) tick() {
	k.mu.Lock()
	if len(k.kept) == 0 { // Drop leaves the timer, which would cost each turn another one
		k.next = nil
	}
	asked := k.due()
	if k.next == nil || k.running != nil {
		k.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.ttl/3) // the renewal is of all owners: no caller ends it
	k.running, k.cancel = make(chan struct{}), cancel
	k.mu.Unlock()

	pause := k.ttl / 3
	if !k.renewAll(ctx, asked) {
		pause = k.ttl / 12 // time for a few more tries before the first is lost
	}
	cancel()

	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.running)
	k.running = nil
	if k.next != nil {
		k.next.Reset(pause)
	}
}

// due returns the things to renew. From now on a timer tells their owners when the time of their things passes.
func (k *Keeper[T]) due() map[T]*Kept[T] {
	asked := make(map[T]*Kept[T], len(k.kept))
	for t := range k.kept {
		if t.deadline.IsZero() || t.settled {
			continue
		}
		if t.timer == nil {
			k.watch(t)
		}
		asked[t.what] = t
	}
	return asked
}

// renewAll renews, and reports whether it is known of all things whether they are still ours.
func (k *Keeper[T]) renewAll(ctx context.Context, asked map[T]*Kept[T]) bool {
	if len(asked) == 0 {
		return true
	}
	all := slices.Collect(maps.Keys(asked))
	return k.renew(ctx, k.ttl, all, func(sent time.Time, renewed, lost []T) { k.note(asked, sent, renewed, lost) })
}

// note takes over what the server said of some that it was asked about.
func (k *Keeper[T]) note(asked map[T]*Kept[T], sent time.Time, renewed, lost []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	current := func(what T) *Kept[T] { // nil: it was given back meanwhile, or replaced
		if t := asked[what]; t != nil && t.what == what && !t.settled && !t.deadline.IsZero() {
			return t
		}
		return nil
	}
	for _, what := range renewed {
		if t := current(what); t != nil && t.timer != nil && t.timer.Stop() {
			t.deadline = sent.Add(k.trusted())
			t.timer.Reset(time.Until(t.deadline))
		}
	}
	for _, what := range lost {
		if t := current(what); t != nil {
			t.end(lock.ErrLost)
		}
	}
}
