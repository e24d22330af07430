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

// Watch passes until ctx is done, and returns its cause once what it began has ended. A run that takes longer than
// five seconds goes on, and gives its place to the next one, so that Options.Concurrency bounds how fast runs begin;
// up to sixteen times as many go on at once. A pass that cannot be made is logged and tried again, less and less
// often, up to Options.Every.
//
// Of the processes of a Sharer one passes at a time. If it is killed, another passes within Options.Every, or five
// seconds if that is less. A process with more to do than it can begin lets another pass.
func Watch(ctx context.Context, b Bot, o *Options) error {
	d := newDrain(b, o)
	w := &watch{
		drain: d, more: make(chan struct{}, 1), hand: make(map[string]bool), tally: tally{onRun: d.OnRun, log: d.Logger},
		places: newPlaces(d.Concurrency), seat: newSeat(d),
	}
	defer w.jobs.Wait()
	defer w.seat.leave(ctx)
	w.jobs.Go(func() { w.work(ctx) })
	if d.Sweep != nil {
		w.jobs.Go(func() { w.sweeps(ctx) })
	}
	return w.passes(ctx)
}

// passes makes passes until ctx is done.
func (w *watch) passes(ctx context.Context) error {
	allAt, dueAt := time.Now().Add(w.around(w.Every)/2), time.Now().Add(dueEvery)
	failures := 0
	for {
		all := w.Sessions != nil || allAt.Before(dueAt)
		next := dueAt
		if all {
			next = allAt
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
		told := w.sit(ctx, failures > 0)
		if told.wait > 0 {
			allAt = time.Now().Add(told.wait)
			dueAt = allAt.Add(dueEvery)
			continue
		}
		all = all || told.fresh
		if w.pass(ctx, all) {
			failures = 0
		} else {
			failures++
		}
		if all {
			allAt = time.Now().Add(w.around(w.Every))
		}
		dueAt = time.Now().Add(w.pause(failures))
	}
}

// sit takes the seat of the watcher if it can. A process that has more to do than it can begin leaves it, and one
// that has failed to recover something, or to list it, takes it for a moment: another may do better.
func (w *watch) sit(ctx context.Context, blind bool) seating {
	if w.seat.bot != nil && w.waiting() {
		w.seat.leave(ctx)
		return seating{wait: dueEvery}
	}
	d := w.seat.most
	if blind || w.failed() {
		d = dueEvery / 2 // the rest of the time it is free
	}
	told := w.seat.take(ctx, d)
	if told.err != nil && ctx.Err() == nil && time.Since(w.seat.complained) >= w.Every {
		w.seat.complained = time.Now()
		w.Logger.ErrorContext(ctx, "watch not shared", "err", told.err)
	}
	return told
}

// A watch is a drain that does not wait for what it has begun.
type watch struct {
	*drain
	tally
	jobs   sync.WaitGroup
	more   chan struct{} // wakes work
	places *places
	seat   *seat // of the goroutine that passes

	queueMu    sync.Mutex // protects following fields
	queue      []string
	hand       map[string]bool // what is queued or under way
	lastFailed time.Time
}

// waiting reports whether something waits for a place.
func (w *watch) waiting() bool {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	return len(w.queue) > 0
}

// failed reports whether something could not be recovered lately.
func (w *watch) failed() bool {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	return !w.lastFailed.IsZero() && time.Since(w.lastFailed) < 2*w.Every
}

// note notes what became of a run.
func (w *watch) note(r Run) {
	if r.Err != nil && r.Outcome != damagedOutcome {
		w.queueMu.Lock()
		w.lastFailed = time.Now()
		w.queueMu.Unlock()
	}
	w.forget(r)
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
			w.note(w.recover(ctx, session))
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
