package bootdrain

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// A Bot is what a drain needs of an orchestrator. It names only standard types, so that neither imports the other.
type Bot interface {
	Name() string
	// Recoverable yields the sessions that have something to finish now: a run that waits and is due, or a reply owed;
	// with all, also every running run of another process, whose owner may be dead. A session with an error is damaged, and
	// the sequence goes on; after an error without a session it ends.
	Recoverable(ctx context.Context, all bool) iter.Seq2[string, error]
	// Recover finishes it unless another process owns it, without waiting. The outcome is "settled", "delivered", "cleaned",
	// "held", "parked", "suspended" or "foreign"; an error means that it failed and will be due again. "damaged" comes with
	// an error: what is stored cannot be used until somebody repairs or deletes it.
	Recover(ctx context.Context, session string) (outcome string, err error)
}

// Options may be nil.
type Options struct {
	Concurrency int                                                       // runs at once, as long as none takes long: see Watch; 0 means 4
	Every       time.Duration                                             // between the passes of Watch over all runs, ± 50 %; 0 means 5s, a day is the most. What waits and is due is looked for every second
	Context     func(ctx context.Context, session string) context.Context // request-scoped values for a drained run
	Sessions    iter.Seq2[string, error]                                  // drain these instead of asking the bot
	Sweep       func(ctx context.Context, limit int) (int, error)         // an Orchestrator's Sweep; Watch calls it once a minute, until it retires less than limit
	OnRun       func(Run)                                                 // as each is done; never two at once
	Logger      *slog.Logger                                              // nil means slog.Default()
}

// A Report adds up: Scanned = len(Runs) = the sum of the other counts.
type Report struct {
	Scanned, Settled, Delivered, Cleaned, Held, Suspended, Parked, Foreign, Damaged, Failed int
	Elapsed                                                                                 time.Duration
	Runs                                                                                    []Run // as they were done
}

// A Run is what became of one session. If it failed, Outcome is "", and Err says why. If the session or its run is damaged,
// Outcome is "damaged", and Err says what is wrong.
type Run struct {
	Session, Outcome string
	Err              error
}

// DrainInterrupted makes one pass and waits for it. A run that takes long gives its place to the next one, as in Watch. Its error says that the pass itself could not be made, or not to the end;
// what became of each run is in the Report.
func DrainInterrupted(ctx context.Context, b Bot, o *Options) (Report, error) {
	return newDrain(b, o).pass(ctx, true)
}

// A drain is a bot and how to drain it.
type drain struct {
	Options
	bot     Bot
	notices notices
}

func newDrain(b Bot, o *Options) *drain {
	d := &drain{bot: b}
	if o != nil {
		d.Options = *o
	}
	if d.Concurrency <= 0 {
		d.Concurrency = 4
	}
	if d.Every <= 0 {
		d.Every = 5 * time.Second
	}
	d.Every = min(d.Every, 24*time.Hour)
	d.Logger = cmp.Or(d.Logger, slog.Default()).With("orchestrator", b.Name())
	return d
}

// pass recovers every session that has something to finish.
func (d *drain) pass(ctx context.Context, all bool) (Report, error) {
	start := time.Now()
	sessions, damaged, err := d.list(ctx, all)
	// Processes that boot together would otherwise meet at each session.
	rand.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })

	t := &tally{onRun: d.OnRun, log: d.Logger}
	for _, r := range damaged {
		d.logRun(ctx, r, 0)
		t.add(r)
	}
	places := newPlaces(d.Concurrency)
	for _, session := range sessions {
		if places.take(ctx) != nil {
			break
		}
		places.run(func() { t.add(d.recover(ctx, session)) })
	}
	places.wait()

	t.report.Elapsed = time.Since(start)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("bootdrain: %d of %d sessions: %w", t.report.Scanned, len(sessions)+len(damaged), context.Cause(ctx))
	}
	return t.report, err
}

// list returns each session once, and apart from them those that are damaged. With an error it returns those that it was told
// of before.
func (d *drain) list(ctx context.Context, all bool) (list []string, damaged []Run, err error) {
	sessions := d.Sessions
	if sessions == nil {
		sessions = d.bot.Recoverable(ctx, all)
	}
	seen := make(map[string]bool)
	for session, err := range sessions {
		switch {
		case err != nil && session == "":
			return list, damaged, fmt.Errorf("bootdrain: %w", err)
		case seen[session]:
		case err != nil:
			damaged = append(damaged, Run{Session: session, Outcome: damagedOutcome, Err: err})
		default:
			list = append(list, session)
		}
		seen[session] = true
	}
	return list, damaged, nil
}

const damagedOutcome = "damaged"

func (d *drain) recover(ctx context.Context, session string) Run {
	own := ctx
	if d.Context != nil {
		own = d.Context(ctx, session)
	}
	start := time.Now()
	outcome, err := d.bot.Recover(own, session)
	r := Run{Session: session, Outcome: outcome, Err: err}
	switch {
	case err == nil && (!known(outcome) || outcome == damagedOutcome):
		r.Err = fmt.Errorf("bootdrain: outcome %q", outcome)
	case err != nil && outcome != damagedOutcome:
		r.Outcome = ""
	}
	d.logRun(own, r, time.Since(start))
	return r
}

// logRun reports whether r was logged: a damage is, once.
func (d *drain) logRun(ctx context.Context, r Run, took time.Duration) bool {
	switch {
	case r.Outcome == damagedOutcome && !d.notices.isNew(r):
		return false
	case r.Outcome == damagedOutcome:
		const what = "session damaged: nothing of it is recovered until it is repaired or deleted"
		d.Logger.ErrorContext(ctx, what, "session", r.Session, "err", r.Err)
	case r.Err != nil:
		d.Logger.ErrorContext(ctx, "run not finished", "session", r.Session, "took", took, "err", r.Err)
	case r.Outcome == "parked":
		d.Logger.ErrorContext(ctx, "run parked", "session", r.Session)
	case r.Outcome == "settled", r.Outcome == "delivered", r.Outcome == "cleaned":
		d.Logger.InfoContext(ctx, "run finished", "session", r.Session, "outcome", r.Outcome, "took", took)
	default:
		return false
	}
	return true
}

// notices are the damages that were logged. A drain that goes on logs each once, and again if it comes back.
type notices struct {
	mu   sync.Mutex        // protects following fields
	said map[string]string // by session, the error
	seen map[string]bool   // since the last forget
}

// isNew reports whether the damage of r is to be logged.
func (n *notices) isNew(r Run) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said == nil {
		n.said, n.seen = make(map[string]string), make(map[string]bool)
	}
	n.seen[r.Session] = true
	if n.said[r.Session] == r.Err.Error() {
		return false
	}
	n.said[r.Session] = r.Err.Error()
	return true
}

// forget drops what has not been seen since the call before.
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

// A tally counts what becomes of the runs.
type tally struct {
	onRun func(Run)
	log   *slog.Logger

	mu     sync.Mutex // protects following field, and is held while onRun runs
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

// forget tells of a run that nobody counts.
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
		if !returned { // it panics, or has called runtime.Goexit
			t.log.Error("OnRun has not returned", "session", r.Session)
		}
	}()
	t.onRun(r)
	returned = true
}

// count returns the field that counts r.
func (t *Report) count(r Run) *int {
	if r.Outcome == damagedOutcome {
		return &t.Damaged
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
