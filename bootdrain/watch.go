package bootdrain

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// The paces of Watch that no option changes.
const (
	dueEvery   = time.Second
	sweepEvery = time.Minute
	sweepLimit = 1000
)

// Watch passes until ctx is done, and returns its cause once what it began has ended. A run that takes longer than five seconds
// goes on, and gives its place to the next one, so that Options.Concurrency bounds how fast runs begin; up to sixteen times as many
// go on at once. A pass that cannot be made is logged and tried again, less and less often, up to Options.Every.
func Watch(ctx context.Context, b Bot, o *Options) error {
	d := newDrain(b, o)
	w := &watch{
		drain: d, more: make(chan struct{}, 1), hand: make(map[string]bool), tally: tally{onRun: d.OnRun, log: d.Logger},
		places: newPlaces(d.Concurrency),
	}
	defer w.jobs.Wait()
	w.jobs.Go(func() { w.work(ctx) })
	if d.Sweep != nil {
		w.jobs.Go(func() { w.sweeps(ctx) })
	}
	allAt, dueAt := time.Now().Add(d.around(d.Every)/2), time.Now().Add(dueEvery)
	failures := 0
	for {
		all := d.Sessions != nil || allAt.Before(dueAt)
		next := dueAt
		if all {
			next = allAt
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
		if w.pass(ctx, all) {
			failures = 0
		} else {
			failures++
		}
		if all {
			allAt = time.Now().Add(d.around(d.Every))
		}
		dueAt = time.Now().Add(d.pause(failures))
	}
}

// A watch is a drain that does not wait for what it has begun.
type watch struct {
	*drain
	tally
	jobs   sync.WaitGroup
	more   chan struct{} // wakes work
	places *places

	queueMu sync.Mutex // protects following fields
	queue   []string
	hand    map[string]bool // what is queued or under way
}

// pass begins to recover every session that has something to finish and is not in hand already. It reports whether all
// could be listed.
func (w *watch) pass(ctx context.Context, all bool) bool {
	if all {
		w.notices.forget()
	}
	sessions, damaged, err := w.list(ctx, all)
	for _, r := range damaged {
		if w.logRun(ctx, r, 0) {
			w.forget(r)
		}
	}
	rand.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })
	for _, session := range sessions {
		w.push(session)
	}
	if err != nil && ctx.Err() == nil {
		w.Logger.ErrorContext(ctx, "pass not made", "err", err)
	}
	return err == nil
}

// work begins to recover one session after the other, as places are free.
func (w *watch) work(ctx context.Context) {
	defer w.places.wait()
	for w.places.take(ctx) == nil {
		session, ok := w.next(ctx)
		if !ok {
			return
		}
		w.places.run(func() {
			defer w.drop(session)
			w.forget(w.recover(ctx, session))
		})
	}
}

// next waits for a session to recover.
func (w *watch) next(ctx context.Context) (session string, ok bool) {
	for ctx.Err() == nil {
		if session, ok = w.pop(); ok {
			return session, true
		}
		select {
		case <-w.more:
		case <-ctx.Done():
		}
	}
	return "", false
}

func (w *watch) push(session string) {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	if w.hand[session] {
		return
	}
	w.hand[session] = true
	w.queue = append(w.queue, session)
	select {
	case w.more <- struct{}{}:
	default: // it is awake, or about to be
	}
}

func (w *watch) pop() (session string, ok bool) {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	if len(w.queue) == 0 {
		return "", false
	}
	session, w.queue = w.queue[0], w.queue[1:]
	return session, true
}

func (w *watch) drop(session string) {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	delete(w.hand, session)
}

// pause is how long to wait before runs that are due are looked for again.
func (d *drain) pause(failures int) time.Duration {
	pause := dueEvery
	for range min(failures, 10) {
		pause *= 2
	}
	return min(pause, max(d.Every, dueEvery))
}

// sweeps retires idle sessions once a minute.
func (w *watch) sweeps(ctx context.Context) {
	for sleep(ctx, w.around(sweepEvery)) == nil {
		w.sweep(ctx)
	}
}

func (d *drain) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := d.Sweep(ctx, sweepLimit)
		if err != nil {
			d.Logger.ErrorContext(ctx, "sweep failed", "err", err)
		}
		if err != nil || n < sweepLimit {
			return
		}
	}
}

// around returns d ± 50 %, so that processes which started together do not stay together.
func (*drain) around(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
