package bootdrain

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/runnote"
)

// A Bot lists and recovers sessions for a drain. An Orchestrator is a Bot. The interface names only standard types, so
// that neither package imports the other.
type Bot interface {
	Name() string
	// Recoverable yields the sessions that have something to finish now: a run that waits and is due, or a reply owed.
	// If all is set, Recoverable also yields each session with a running run of another process, whose owner may be
	// dead. If a session comes with an error, the session is damaged, and the sequence goes on. After an error without
	// a session, the sequence ends. The sessions that came before are recovered, and the next pass finds the others.
	Recoverable(ctx context.Context, all bool) iter.Seq2[string, error]

	// Recover finishes the session. If another process owns the session, Recover returns "held" without waiting. The
	// outcome is "settled", "delivered", "cleaned", "held", "parked", "suspended" or "foreign". If Recover fails, it
	// returns an error, and the session will be due again. If the stored data is damaged, Recover returns "damaged" and
	// an error: the session stays unusable until an operator repairs or deletes it. If this process would lose
	// something of the stored data, Recover returns "drift" and an error: a process of another version can recover the
	// session.
	Recover(ctx context.Context, session string) (outcome string, err error)
}

// A Noticer is a Bot that notices when another process has stopped. Watch then makes a pass over all runs at once. An
// Orchestrator is a Noticer.
type Noticer interface {
	Bot
	// OtherStopped returns a channel that is closed when one more process is found to have stopped. It is not closed
	// yet.
	OtherStopped() <-chan struct{}
}

// Options configure a drain. The zero value, and nil, mean the defaults.
type Options struct {
	// Concurrency is how many runs are claimed at once. 0 means 4. A run that is at work does not count: see Watch.
	Concurrency int

	// Running is how many runs go on at once, those that are being claimed included. 0 means 256. If so many do, the
	// next one begins when one of them has ended, or in another process.
	Running int

	// Every is the pause between the passes of Watch over all runs, ± 50 %. 0 means 5s, and a day is the most.
	// Watch looks every second for runs that wait and are due, also if Every is longer.
	Every time.Duration

	// Context returns a context with request-scoped values for a drained run.
	Context func(ctx context.Context, session string) context.Context

	// Sessions, if not nil, are drained instead of the sessions that the bot yields.
	Sessions iter.Seq2[string, error]

	// Sweep is an Orchestrator's Sweep. Watch calls it once a minute, and repeats the call until it retires fewer than
	// limit.
	Sweep func(ctx context.Context, limit int) (int, error)

	// OnRun is called when a run is done. Two calls never overlap.
	OnRun func(Run)

	// Logger gets the outcome of each run. nil means slog.Default().
	Logger *slog.Logger

	// LogError returns the text that logs show for an error: see orchestrator.Options.LogError. If it is nil, the level
	// of Logger decides, as it does there.
	LogError func(error) string
}

// A Report counts the outcomes of a pass: see Bot.Recover. Scanned = len(Runs) = the sum of the other counts. Failed
// counts the sessions whose recovery failed.
type Report struct {
	Scanned, Settled, Delivered, Cleaned, Held, Suspended, Parked, Foreign, Drift, Damaged, Failed int

	Elapsed time.Duration
	Runs    []Run // in the order in which they ended
}

// A Run is the outcome for one session, as Bot.Recover returned it. If the recovery failed, Outcome is "", and Err says
// why. If the session or its run is damaged, Outcome is "damaged", and Err says how. If this process would lose
// something of the session, Outcome is "drift", and Err names it.
type Run struct {
	Session, Outcome string
	ID               string // of the run that was in flight; "" if there was none
	Err              error
}

// DrainInterrupted makes one pass and waits for the end of all its runs, which begin as those of Watch do. If the pass
// fails or stops early, DrainInterrupted returns an error. The outcome of each run is in the Report.
func DrainInterrupted(ctx context.Context, b Bot, o *Options) (Report, error) {
	return newDrain(b, o).pass(ctx, true)
}

// A drain holds a bot and its options.
type drain struct {
	Options
	bot     Bot
	notices notices
}

func newDrain(b Bot, o *Options) *drain {
	d := newOptions(o)
	d.bot = b
	d.Logger = d.Logger.With("orchestrator", b.Name())
	return d
}

// newOptions returns a drain without a bot.
func newOptions(o *Options) *drain {
	d := new(drain)
	if o != nil {
		d.Options = *o
	}
	if d.Concurrency <= 0 {
		d.Concurrency = 4
	}
	if d.Running <= 0 {
		d.Running = 256
	}
	if d.Every <= 0 {
		d.Every = 5 * time.Second
	}
	d.Every = min(d.Every, 24*time.Hour)
	d.Logger = cmp.Or(d.Logger, slog.Default())
	d.LogError = logtext.By(d.LogError, d.Logger)
	return d
}

// pass recovers every session that has something to finish.
func (d *drain) pass(ctx context.Context, all bool) (Report, error) {
	start := time.Now()
	sessions, damaged, err := d.list(ctx, all)
	// If processes booted together and went in the same order, they would meet at each session.
	rand.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })

	t := &tally{onRun: d.OnRun, log: d.Logger}
	for _, r := range damaged {
		d.logRun(ctx, r, 0)
		t.add(r)
	}
	places := newPlaces(&d.Options)
	for _, session := range sessions {
		if places.take(ctx) != nil {
			break
		}
		places.run(func(atWork func()) { t.add(d.recover(ctx, session, atWork)) })
	}
	places.wait()

	t.report.Elapsed = time.Since(start)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("bootdrain: %d of %d sessions: %w", t.report.Scanned, len(sessions)+len(damaged),
			context.Cause(ctx))
	}
	return t.report, err
}

// list returns each session once. It returns damaged sessions apart. If listing fails, list returns the error and the
// sessions that it got before.
func (d *drain) list(ctx context.Context, all bool) (list []string, damaged []Run, err error) {
	seen := make(map[string]bool)
	err = d.caught(ctx, func() error {
		sessions := d.Sessions
		if sessions == nil {
			sessions = d.bot.Recoverable(ctx, all)
		}
		for session, err := range sessions {
			switch {
			case err != nil && session == "":
				return fmt.Errorf("bootdrain: %w", logtext.Shield(err))
			case seen[session]:
			case err != nil:
				damaged = append(damaged, Run{Session: session, Outcome: damagedOutcome, Err: err})
			default:
				list = append(list, session)
			}
			seen[session] = true
		}
		return nil
	})
	return list, damaged, err
}

// The outcomes that come with an error and are no failure.
const (
	damagedOutcome = "damaged"
	driftOutcome   = "drift"
)

// unusable reports whether r is of a session that this process cannot use.
func (r Run) unusable() bool { return r.Outcome == damagedOutcome || r.Outcome == driftOutcome }

// recover recovers a session. If the bot tells when the session is at work, recover calls atWork then.
func (d *drain) recover(ctx context.Context, session string, atWork func()) Run {
	start, own, note, outcome := time.Now(), ctx, new(runnote.Note), ""
	err := d.caught(ctx, func() (err error) {
		given := ctx
		if d.Context != nil {
			given = d.Context(ctx, session)
		}
		own, note = runnote.With(given, atWork)
		outcome, err = d.bot.Recover(own, session)
		return err
	})
	r := Run{Session: session, ID: note.Run(), Outcome: outcome, Err: err}
	switch {
	case err == nil && (!known(outcome) || r.unusable()):
		r.Err = fmt.Errorf("bootdrain: outcome %q", outcome)
	case err != nil && !r.unusable():
		r.Outcome = ""
	}
	d.logRun(own, r, time.Since(start))
	return r
}

// caught calls f, which calls a function of the program or a store. A panic becomes an error. It is logged with its
// stack, and without its value, which may repeat what a user said.
func (d *drain) caught(ctx context.Context, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			kind := fmt.Sprintf("%T", v)
			err = fmt.Errorf("bootdrain: panicked with a %s", kind)
			d.Logger.ErrorContext(ctx, "function panicked", "type", kind, "stack", string(debug.Stack()))
		}
	}()
	return f()
}

// logRun logs r and reports whether it did. It logs the same damage, and the same drift, once.
func (d *drain) logRun(ctx context.Context, r Run, took time.Duration) bool {
	switch {
	case r.unusable() && !d.notices.isNew(r):
		return false
	case r.Outcome == driftOutcome:
		const what = "session left to a process of another version: something of it would be lost here"
		d.Logger.WarnContext(ctx, what, r.attrs(d.why(r.Err))...)
	case r.Outcome == damagedOutcome:
		const what = "session damaged: nothing of it is recovered until it is repaired or deleted"
		d.Logger.ErrorContext(ctx, what, r.attrs(d.why(r.Err))...)
	case r.Err != nil:
		d.Logger.ErrorContext(ctx, "run not finished", r.attrs("took_ms", took.Milliseconds(), d.why(r.Err))...)
	case r.Outcome == "settled", r.Outcome == "delivered", r.Outcome == "cleaned":
		d.Logger.InfoContext(ctx, "run finished", r.attrs("outcome", r.Outcome, "took_ms", took.Milliseconds())...)
	default:
		return false
	}
	return true
}

// attrs returns the attributes of a log line about r.
func (r Run) attrs(more ...any) []any {
	attrs := []any{"session", r.Session}
	if r.ID != "" {
		attrs = append(attrs, "run", r.ID)
	}
	return append(attrs, more...)
}

// why returns the attribute of a log line for err.
func (d *drain) why(err error) slog.Attr { return slog.String("err", d.LogError(err)) }

// notices are the damages and drifts that were logged. A drain that goes on logs each of them once. If one goes away
// and comes back, the drain logs it again.
type notices struct {
	mu   sync.Mutex        // protects following fields
	said map[string]string // the error, by session
	seen map[string]bool   // since the last forget
}

// isNew reports whether the error of r is to be logged.
func (n *notices) isNew(r Run) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said == nil {
		n.said, n.seen = make(map[string]string), make(map[string]bool)
	}
	n.seen[r.Session] = true
	text := logtext.Text(r.Err)
	if n.said[r.Session] == text {
		return false
	}
	n.said[r.Session] = text
	return true
}

// forget drops what no pass has seen since the last call of forget.
func (n *notices) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for session := range n.said {
		if !n.seen[session] {
			delete(n.said, session)
		}
	}
	clear(n.seen)
}

// A tally counts the outcomes of runs.
type tally struct {
	onRun func(Run)
	log   *slog.Logger

	// mu protects the following field. It is held while onRun runs.
	mu     sync.Mutex
	report Report
}

func (t *tally) add(r Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Scanned++
	*t.report.count(r)++
	t.report.Runs = append(t.report.Runs, r)
	t.tell(r)
}

// forget calls OnRun with r but does not count r.
func (t *tally) forget(r Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(r)
}

func (t *tally) tell(r Run) {
	if t.onRun == nil {
		return
	}
	returned := false
	defer func() {
		v := recover()
		if !returned { // without a panic it has called runtime.Goexit
			t.log.Error("OnRun has not returned", "session", r.Session, "type", fmt.Sprintf("%T", v))
		}
	}()
	t.onRun(r)
	returned = true
}

// count returns the field that counts r.
func (t *Report) count(r Run) *int {
	switch r.Outcome {
	case damagedOutcome:
		return &t.Damaged
	case driftOutcome:
		return &t.Drift
	}
	if r.Err == nil {
		switch r.Outcome {
		case "settled":
			return &t.Settled
		case "delivered":
			return &t.Delivered
		case "cleaned":
			return &t.Cleaned
		case "held":
			return &t.Held
		case "suspended":
			return &t.Suspended
		case "parked":
			return &t.Parked
		case "foreign":
			return &t.Foreign
		}
	}
	return &t.Failed
}

func known(outcome string) bool {
	var r Report
	return r.count(Run{Outcome: outcome}) != &r.Failed
}
