package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A scenario is the act of the process under test, and what the process finds.
type scenario struct {
	name  string
	bot   bot
	found func(context.Context, *world) error // nil: finds nothing
	how   orchestrator.OnInterrupted
	fails string // the intent that fails
	act   act
	wants error // result of act without a fault
	// expires: the lease of the process under test ends by itself.
	expires bool
	// silent: the process under test beats when it claims. If it dies or stops, its beats stand still, and the second
	// process claims from it, while its lease goes on.
	silent bool
	follow []act // for the second process
	all    bool  // each fault gets all follows
	// from is the first point that suffers. Another scenario has the earlier points. "" means all points.
	from string
}

func (sc *scenario) check(res *Result, err error) error {
	if sc.wants == nil {
		return sc.act.check(res, err)
	}
	if err == nil {
		return fmt.Errorf("no error, want %w", sc.wants)
	}
	if !errors.Is(err, sc.wants) {
		return fmt.Errorf("got %w, want %v", err, sc.wants)
	}
	return nil
}

var (
	single    = bot{}
	replying  = bot{deliver: true}
	iterating = bot{iterate: true}
	whole     = bot{iterate: true, deliver: true}
	bare      = bot{iterate: true, bare: true}
	fanning   = bot{fan: true}
	eaching   = bot{fan: true, items: true}
	choosing  = bot{fan: true, items: true, ledger: true}
	working   = bot{iterate: true, items: true}
	buying    = bot{ledger: true, buys: true}

	logging    = bot{deliver: true, logs: true}
	loggingAll = bot{iterate: true, deliver: true, logs: true}
)

// The inputs of the dead process, of the process under test, and of the second process.
var (
	zero   = execute("zero", "r0")
	one    = execute("one", "r1")
	plain  = execute("one", "")
	quick  = execute(short, "r1")
	two    = briefly("two", "r2")
	simple = briefly("three", "")
)

// briefly returns a turn with little to do, and with more in its whole.
func briefly(text, requestID string) act {
	a, whole := execute(short, requestID), execute(text, requestID)
	a.whole = &whole
	return a
}

// scenarios are all scenarios.
var scenarios = slices.Concat(turns(), takeovers(), ends(), buyers(), loggers())

// turns returns the scenarios that find no earlier run.
func turns() []scenario {
	others := []act{simple, recovery, resume, two}
	return []scenario{
		{name: "one dispatch", bot: single, act: one, follow: []act{one, two}, all: true},
		{name: "one dispatch, delivered", bot: replying, act: one, follow: []act{one, two}, all: true},
		{name: "iterations", bot: iterating, act: one, follow: []act{one, two}},
		{name: "iterations, delivered", bot: whole, act: one, follow: []act{one, two}, all: true},
		{name: "one dispatch, ended from outside", bot: replying, act: one, follow: []act{abandon, remove}, all: true},
		{name: "iterations, ended from outside", bot: iterating, act: one, follow: []act{abandon, remove}},
		{
			name: "one dispatch, the lease expires", bot: replying, act: one, expires: true,
			follow: []act{one, two, simple},
		},
		{
			name: "one dispatch, the beats stop", bot: replying, act: one, silent: true,
			follow: []act{one, two, simple},
		},
		{
			name: "one dispatch, no snapshots", bot: bot{deliver: true, volatile: true}, act: one,
			follow: []act{one, two},
		},
		{name: "iterations, no Begin", bot: bare, act: one, follow: []act{one, two}},
		{name: "fan-out", bot: fanning, act: one, follow: []act{one, two}},
		{name: "items", bot: eaching, act: one, follow: []act{one, two}},
		{name: "items, with a ledger", bot: choosing, act: one, follow: []act{one, two}},
		{name: "iterations, items", bot: working, act: one, follow: []act{one, two}},
		{name: "one dispatch, delivered, no request id", bot: replying, act: plain, follow: others},
		{name: "iterations, no request id", bot: iterating, act: plain, follow: others},
	}
}

// What the second process does after a takeover.
var (
	live  = []act{quick, two, recovery, resume}
	again = []act{zero, two, recovery, resume} // first the input of the dead process
	mixed = []act{quick, recovery, zero, resume}
)

// takeovers returns the scenarios that find the run of a dead process.
func takeovers() []scenario {
	return slices.Concat(halfway(), finished(), outdated())
}

// halfway returns the scenarios that find a run which has to go on.
func halfway() []scenario {
	c := left("c")
	return []scenario{
		{name: "resume another first", bot: whole, found: c, act: quick, follow: live},
		{name: "resume own", bot: iterating, found: c, act: zero, follow: again},
		{name: "resume own, no Begin", bot: bare, found: c, act: zero, follow: again},
		{name: "resume own fan-out", bot: fanning, found: c, act: zero, follow: again},
		{name: "resume own items", bot: eaching, found: c, act: zero, follow: again},
		{name: "resume own items, with a ledger", bot: choosing, found: c, act: zero, follow: again},
		{name: "Resume items", bot: working, found: c, act: resume, follow: []act{resume, two, zero, recovery}},
		{name: "Resume", bot: iterating, found: c, act: resume, follow: []act{resume, two, zero, recovery}},
		{name: "Recover", bot: whole, found: c, act: recovery, follow: []act{recovery, two, zero, resume}},
		{
			name: "Reject", bot: iterating, found: c, how: orchestrator.Reject, act: quick,
			wants: orchestrator.ErrInterrupted, follow: live,
		},
		{name: "AbandonFirst", bot: iterating, found: c, how: orchestrator.AbandonFirst, act: quick, follow: live},
	}
}

// finished returns the scenarios that find a turn which has settled or failed.
func finished() []scenario {
	return []scenario{
		{name: "finished run: settled", bot: single, found: left("drop"), act: quick, follow: live},
		{name: "Recover a finished run", bot: single, found: left("drop"), act: recovery, follow: mixed},
		{
			name: "finished run: failed", bot: single, found: failed, act: quick,
			follow: append(slices.Clone(live), zero),
		},
		{name: "own finished run: failed", bot: single, found: failed, act: zero, follow: again},
		{name: "owed reply", bot: replying, found: left("Deliver"), act: quick, follow: live},
		{
			name: "Recover an owed reply", bot: replying, found: left("mark"), act: recovery,
			follow: []act{quick, recovery, zero},
		},
		{name: "replay", bot: replying, found: settled, act: zero, follow: []act{zero, two, recovery}},
	}
}

// outdated returns the scenarios that find a run which another turn, or the end of its session, has overtaken.
func outdated() []scenario {
	c := both(left("c"), bypassed)
	return []scenario{
		{
			name: "resume on another base", bot: single, found: overtaken, act: quick,
			follow: append(slices.Clone(live), zero),
		},
		{name: "Resume on another base", bot: single, found: overtaken, act: resume, follow: mixed},
		{name: "Resume halfway on another base", bot: iterating, found: c, act: resume, follow: mixed},
		{name: "Resume a fan-out on another base", bot: fanning, found: c, act: resume, follow: mixed},
		{name: "run of a deleted session", bot: single, found: outlived, act: quick, follow: live},
	}
}

// ends returns the scenarios in which a run ends without a turn.
func ends() []scenario {
	return []scenario{
		{
			name: "Abandon", bot: iterating, found: owned("c"), act: abandon,
			follow: []act{abandon, two, recovery, resume, zero},
		},
		{
			name: "Abandon a finished run", bot: single, found: owned("drop"), act: abandon,
			follow: []act{abandon, two, recovery, resume, zero},
		},
		{name: "Delete", bot: replying, found: settled, act: remove, follow: []act{remove, two, recovery, zero}},
		{
			name: "Delete with a run", bot: iterating, found: both(settled, owned("c")), act: remove,
			follow: []act{remove, two, recovery, resume, zero},
		},
		{
			name: "failing intent", bot: single, fails: "a", act: one,
			wants: errFailing, follow: []act{one, two, recovery, resume}, all: true,
		},
		{
			name: "failing intent, no snapshots", bot: bot{deliver: true, volatile: true}, fails: "a", act: one,
			wants: errFailing, follow: []act{one, two},
		},
		{
			name: "failing branch", bot: iterating, fails: "c", act: one,
			wants: errFailing, from: "save", follow: []act{one, two, recovery, resume},
		},
		{
			name: "failing in the end", bot: whole, fails: "d", act: plain,
			wants: errFailing, from: "d", follow: []act{simple, two, recovery, resume},
		},
		{
			name: "Resume of what fails", bot: iterating, found: left("c"), fails: "d", act: resume,
			wants: errFailing, from: "d", follow: []act{two, recovery, resume, zero},
		},
		{
			name: "Recover of what fails", bot: iterating, found: left("c"), fails: "d", act: recovery,
			wants: errFailing, from: "d", follow: []act{two, recovery, resume, zero},
		},
	}
}

// buyers returns the scenarios with effects.
func buyers() []scenario {
	again := []act{zero, two, recovery, resume}
	return []scenario{
		{name: "effects", bot: buying, act: one, follow: []act{one, two, recovery, resume}},
		{name: "effects, ended from outside", bot: buying, act: one, follow: []act{abandon, remove}, from: payAsk},
		{
			name: "effects, the beats stop", bot: buying, act: one, silent: true, from: payAsk,
			follow: []act{one, two, simple},
		},
		{
			name: "effects, then the intent fails", bot: buying, fails: "a", act: one, wants: errFailing, from: payPure,
			follow: []act{one, two, recovery, resume},
		},
		{
			name: "resume what has to be asked", bot: buying, found: left(payAsk), act: zero,
			wants: orchestrator.ErrSuspended, follow: again,
		},
		{name: "resume what can be verified", bot: buying, found: left(payVerifiable), act: zero, follow: again},
		{name: "Recover what may be repeated", bot: buying, found: left(payIdempotent), act: recovery, follow: again},
		{name: "Abandon with an effect", bot: buying, found: owned(payVerifiable), act: abandon, follow: again},
		{name: "Delete with an effect", bot: buying, found: owned(payAsk), act: remove, follow: again},
	}
}

// left lets a process with the act zero suffer a fault, and end.
func left(point string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := owned(point)(ctx, w); err != nil {
			return err
		}
		w.bury(ctx)
		return nil
	}
}

// owned leaves a run whose process still has a lease. Its stores are not joined: otherwise no settled run would remain.
func owned(point string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		p := w.process("P0", fault{kind: die, name: point, n: 1})
		p.apart = true
		_, _ = p.act(ctx, orchestrator.ResumeFirst, zero)
		return p.wantHit()
	}
}

// failed leaves a failed run that is not deleted. Its caller was told.
func failed(ctx context.Context, w *world) error {
	p := w.process("P0", fault{kind: before, name: "drop", n: 1})
	p.failing = "a"
	res, err := p.act(ctx, orchestrator.ResumeFirst, zero)
	w.hear(zero, "", res, err)
	return p.wantHit()
}

// settled leaves a settled turn.
func settled(ctx context.Context, w *world) error {
	p := w.process("P0", fault{})
	a := simple
	if w.bot.deliver {
		a = zero
	}
	res, err := p.act(ctx, orchestrator.ResumeFirst, a)
	w.hear(a, "", res, err)
	return err
}

// bypassed leaves a turn of a process without a snapshot store, which does not see the run in flight.
func bypassed(ctx context.Context, w *world) error {
	p := w.process("P0", fault{})
	p.volatile = true
	res, err := p.act(ctx, orchestrator.ResumeFirst, simple)
	w.hear(simple, "", res, err)
	return err
}

// overtaken leaves a run whose Begin was late: another turn had settled before. A process without a snapshot store has
// settled that turn. Otherwise the fence of that process would have refused the Begin.
func overtaken(ctx context.Context, w *world) error {
	p := w.process("P0", fault{kind: late, name: "begin", n: 1})
	res, err := p.act(ctx, orchestrator.ResumeFirst, zero)
	w.hear(zero, "", res, err)
	if err := p.wantHit(); err != nil {
		return err
	}
	if err := bypassed(ctx, w); err != nil {
		return err
	}
	p.goOn()
	return nil
}

// outlived leaves a run whose Begin came after its session was deleted. A process without a snapshot store has deleted
// the session. Otherwise the fence of that process would have refused the Begin.
func outlived(ctx context.Context, w *world) error {
	p := w.process("P0", fault{kind: late, name: "begin", n: 1})
	res, err := p.act(ctx, orchestrator.ResumeFirst, zero)
	w.hear(zero, "", res, err)
	if err := p.wantHit(); err != nil {
		return err
	}
	eraser := w.process("P0", fault{})
	eraser.volatile = true
	_, err = eraser.act(ctx, orchestrator.ResumeFirst, remove)
	p.goOn()
	return err
}

func both(a, b func(context.Context, *world) error) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if err := a(ctx, w); err != nil {
			return err
		}
		return b(ctx, w)
	}
}
