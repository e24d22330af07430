package bootdrain

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// The paces of Watch that no option changes.
const (
	dueEvery   = time.Second
	sweepEvery = time.Minute
	sweepLimit = 1000

	// rest is the shortest time between two passes: many processes may stop one after the other.
	rest = time.Second / 10

	// helping is how long a process asks more often whether it is to make the passes, after another process was found
	// to have stopped: the process that makes them may soon have more runs than it can begin.
	helping = 10 * time.Second
)

// Watch makes passes until ctx is done. Then it waits for the runs that it began, and returns the cause of ctx.
//
// A run has a place until it is at work: it is claimed and adopted, and a function of the bot begins to run. An
// Orchestrator tells when. A run of another Bot, or one whose claim hangs, gives its place up after five seconds and
// goes on. So Options.Concurrency bounds the claims at once, and Options.Running the runs at once. If a pass fails,
// Watch logs the error and tries again, less and less often, down to once in Options.Every.
//
// If another process is found to have stopped, the process that makes the passes makes one at once: see [Noticer].
//
// Of the processes of a Sharer, one makes passes at a time. If that process is killed, another makes passes within
// Options.Every, or within five seconds if that is less. A process with more runs than it can begin lets another
// process make passes: at once if Options.Running is reached. After another process was found to have stopped, each
// process asks once a second for a while whether it is to make passes.
func Watch(ctx context.Context, b Bot, o *Options) error {
	d := newDrain(b, o)
	w := &watch{
		drain: d, more: make(chan struct{}, 1), hand: make(map[string]bool),
		tally:  tally{onRun: d.OnRun, log: d.Logger},
		places: newPlaces(&d.Options), seat: newSeat(d),
	}
	defer w.jobs.Wait()
	defer w.seat.leave(ctx)
	w.jobs.Go(func() { w.work(ctx) })
	if d.Sweep != nil {
		w.jobs.Go(func() { _ = d.sweeps(ctx, d.Sweep) })
	}
	return w.passes(ctx)
}

// passes makes passes until ctx is done.
func (w *watch) passes(ctx context.Context) error {
	allAt, dueAt := time.Now().Add(w.around(w.Every)/2), time.Now().Add(dueEvery)
	failures := 0
	var stopped <-chan struct{} // closed if another process was found to have stopped since the loop last woke
	var help time.Time          // until then the process that makes the passes may need help
	for {
		all := w.Sessions != nil || allAt.Before(dueAt)
		next := dueAt
		if all {
			next = allAt
		}
		if err := sleep(ctx, rest); err != nil {
			return err
		}
		early, err := sleepUnless(ctx, time.Until(next), stopped)
		if err != nil {
			return err
		}
		if early {
			help = time.Now().Add(helping)
		}
		stopped = w.otherStopped()
		told := w.sit(ctx, failures > 0)
		if told.wait > 0 {
			if time.Now().Before(help) {
				told.wait = min(told.wait, w.around(dueEvery))
			}
			allAt = time.Now().Add(told.wait)
			dueAt = allAt.Add(dueEvery)
			continue
		}
		all = all || early || told.fresh
		switch ok := w.pass(ctx, all); {
		case ok:
			failures = 0
		case early:
			continue // the pass that was due is yet to come
		default:
			failures++
		}
		if all {
			allAt = time.Now().Add(w.around(w.Every))
		}
		dueAt = time.Now().Add(w.pause(failures))
	}
}

// otherStopped returns the channel of a Noticer; nil if the bot is none, or the sessions are given.
func (w *watch) otherStopped() <-chan struct{} {
	if n, ok := w.bot.(Noticer); ok && w.Sessions == nil {
		return n.OtherStopped()
	}
	return nil
}

// sit takes the seat of the watcher if it can. If this process has more runs than it can begin, sit leaves the seat. If
// this process has failed to list or to recover sessions, sit takes the seat for a moment only: another process may do
// better.
func (w *watch) sit(ctx context.Context, blind bool) seating {
	if w.seat.bot != nil && w.waiting() {
		w.seat.leave(ctx)
		return seating{wait: dueEvery}
	}
	d := w.seat.most
	if blind || w.failed() {
		d = dueEvery / 2 // then the seat is free
	}
	told := w.seat.take(ctx, d)
	if told.err != nil && ctx.Err() == nil && time.Since(w.seat.complained) >= w.Every {
		w.seat.complained = time.Now()
		w.Logger.ErrorContext(ctx, "watch not shared", w.why(told.err))
	}
	return told
}

// A watch is a drain that does not wait for the runs that it has begun.
type watch struct {
	*drain
	tally
	jobs   sync.WaitGroup
	more   chan struct{} // wakes work
	places *places
	seat   *seat

	// failing is the text of the error that passes end with; "" if the last pass over all sessions was made.
	failing string

	queueMu    sync.Mutex // protects following fields
	queue      []string
	hand       map[string]bool // sessions queued or under way
	lastFailed time.Time
}

// waiting reports whether a session waits for a place.
func (w *watch) waiting() bool {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	return len(w.queue) > 0
}

// failed reports whether a recovery failed lately.
func (w *watch) failed() bool {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	return !w.lastFailed.IsZero() && time.Since(w.lastFailed) < 2*w.Every
}

// note remembers a failure and calls OnRun with r.
func (w *watch) note(r Run) {
	if r.Err != nil && !r.unusable() {
		w.queueMu.Lock()
		w.lastFailed = time.Now()
		w.queueMu.Unlock()
	}
	w.forget(r)
}

// pass queues every session that has something to finish and is not in hand already. It reports whether it could list
// all such sessions.
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
	if ctx.Err() == nil {
		w.notePass(ctx, all, err)
	}
	return err == nil
}

// notePass logs why passes are not made, or not whole: each reason once, and the end.
func (w *watch) notePass(ctx context.Context, all bool, err error) {
	switch {
	case err == nil && all && w.failing != "":
		w.failing = ""
		w.Logger.InfoContext(ctx, "passes are made again")
	case err != nil && w.failing != logtext.Text(err):
		w.failing = logtext.Text(err)
		w.Logger.ErrorContext(ctx, "pass not made", w.why(err))
	}
}

// work begins to recover one session after the other, when places are free.
func (w *watch) work(ctx context.Context) {
	defer w.places.wait()
	for w.place(ctx) == nil {
		session, ok := w.next(ctx)
		if !ok {
			return
		}
		w.places.run(func(atWork func()) {
			defer w.drop(session)
			w.note(w.recover(ctx, session, atWork))
		})
	}
}

// place waits for a free place. If a session has to wait until a run has ended, place first leaves the seat of the
// watcher: another process can begin the session earlier.
func (w *watch) place(ctx context.Context) error {
	if w.places.full() && w.waiting() {
		w.seat.leave(ctx)
	}
	return w.places.take(ctx)
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
	default: // already awake, or about to be
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

// pause returns how long to wait before the next look for runs that are due.
func (d *drain) pause(failures int) time.Duration {
	pause := dueEvery
	for range min(failures, 10) {
		pause *= 2
	}
	return min(pause, max(d.Every, dueEvery))
}

// Sweep calls sweep once a minute, as Watch calls Options.Sweep, until ctx is done. It returns the cause of ctx. It is
// for a database that several bots use: the Sweep of each bot would sweep all of it. Of the Options it uses Logger and
// LogError.
func Sweep(ctx context.Context, sweep func(ctx context.Context, limit int) (int, error), o *Options) error {
	return newOptions(o).sweeps(ctx, sweep)
}

// sweeps calls sweep once a minute.
func (d *drain) sweeps(ctx context.Context, sweep func(context.Context, int) (int, error)) error {
	for {
		if err := sleep(ctx, d.around(sweepEvery)); err != nil {
			return err
		}
		d.sweep(ctx, sweep)
	}
}

func (d *drain) sweep(ctx context.Context, sweep func(context.Context, int) (int, error)) {
	for ctx.Err() == nil {
		n := 0
		err := d.caught(ctx, func() (err error) { n, err = sweep(ctx, sweepLimit); return err })
		if err != nil {
			d.Logger.ErrorContext(ctx, "sweep failed", d.why(err))
		}
		if err != nil || n < sweepLimit {
			return
		}
	}
}

// around returns d ± 50 %, so that processes which started together do not stay together.
func (*drain) around(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func sleep(ctx context.Context, d time.Duration) error {
	_, err := sleepUnless(ctx, d, nil)
	return err
}

// sleepUnless waits for d, or until wake is closed. Then early is true.
func sleepUnless(ctx context.Context, d time.Duration, wake <-chan struct{}) (early bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-wake:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
