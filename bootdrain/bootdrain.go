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
	// with all, also every running run of another process, whose owner may be dead.
	Recoverable(ctx context.Context, all bool) iter.Seq2[string, error]
	// Recover finishes it unless another process owns it, without waiting. The outcome is "settled", "delivered", "cleaned",
	// "held", "parked", "suspended" or "foreign"; an error means that it failed and will be due again.
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
	Scanned, Settled, Delivered, Cleaned, Held, Suspended, Parked, Foreign, Failed int
	Elapsed                                                                        time.Duration
	Runs                                                                           []Run // as they were done
}

// A Run is what became of one session. Outcome is "" where Err says why it failed.
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
	bot Bot
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
	sessions, err := d.list(ctx, all)
	// Processes that boot together would otherwise meet at each session.
	rand.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })

	t := &tally{onRun: d.OnRun, log: d.Logger}
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
		err = fmt.Errorf("bootdrain: %d of %d sessions: %w", t.report.Scanned, len(sessions), context.Cause(ctx))
	}
	return t.report, err
}

// list returns each session once. With an error it returns those that it was told of before.
func (d *drain) list(ctx context.Context, all bool) ([]string, error) {
	sessions := d.Sessions
	if sessions == nil {
		sessions = d.bot.Recoverable(ctx, all)
	}
	var list []string
	seen := make(map[string]bool)
	for session, err := range sessions {
		if err != nil {
			return list, fmt.Errorf("bootdrain: %w", err)
		}
		if !seen[session] {
			seen[session] = true
			list = append(list, session)
		}
	}
	return list, nil
}

func (d *drain) recover(ctx context.Context, session string) Run {
	own := ctx
	if d.Context != nil {
		own = d.Context(ctx, session)
	}
	start := time.Now()
	outcome, err := d.bot.Recover(own, session)
	r := Run{Session: session, Outcome: outcome, Err: err}
	if err == nil && !known(outcome) {
		r.Err = fmt.Errorf("bootdrain: outcome %q", outcome)
	}
	switch took := time.Since(start); {
	case r.Err != nil:
		d.Logger.ErrorContext(own, "run not finished", "session", session, "took", took, "err", r.Err)
	case outcome == "parked":
		d.Logger.ErrorContext(own, "run parked", "session", session)
	case outcome == "settled", outcome == "delivered", outcome == "cleaned":
		d.Logger.InfoContext(own, "run finished", "session", session, "outcome", outcome, "took", took)
	}
	return r
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
