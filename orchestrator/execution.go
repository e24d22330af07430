package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A joint is what else the call does that appends a turn, if the stores are one database: it deletes the run in the
// same transaction, after it has recorded the end of the turn. Then no crash leaves behind a run that has settled.
type joint struct {
	end       snapshot.End
	on        bool // else the turn settles without the others
	forgotten bool // the run is deleted
}

// An execution takes one run to its end, in this process.
type execution[S any] struct {
	bot   *Orchestrator[S]
	visit *visit
	run   run
	input Input

	// index is the number of the turn that the run will be.
	index int

	// ctx is the context of the session, with the span of the turn.
	ctx    context.Context
	tracer tracer

	// timed is ctx, with the time that the turn may take.
	timed context.Context
	stop  context.CancelFunc // of timed; nil: no time was set

	// adopted says that the run was found in flight, so that an earlier owner may have left effects.
	adopted bool

	// found is the payload of such a run, until it is read.
	found json.RawMessage

	// since is when the run began, by the clock of a store. It is zero if the input has a request id: an earlier call
	// may have begun the run, or one that a store has lost.
	since time.Time

	// joint is what the call does, beside appending the turn.
	joint joint

	// logged says that the turn log has the beginning of the run.
	logged bool

	// built says that state and history belong to this turn.
	built bool

	// looked says that it is known whether an earlier call has begun the run.
	looked bool

	// worked says that a function of the bot has run since the last progress was saved.
	worked bool
	final  bool // nothing follows in this call
	began  time.Time

	state S

	// altered says that the state which the turn starts from is not as stored: see restored.
	altered bool
	fan     *fan // the current fan-out; nil: none

	// decision is what runs in this iteration; nil before it is decided, and without a snapshot store. routed says that
	// Route was asked.
	decision atomic.Pointer[decision]
	routed   bool
	history  []message.Message

	// ran are the intents that ran, oldest first.
	ran []string

	// reasons say why each step was decided. There may be fewer reasons than steps.
	reasons []string
	meter   meter
	effects effects
}

func (x *execution[S]) engine() *engine { return x.visit.engine }

func (x *execution[S]) limits() *Limits { return &x.visit.engine.options.Limits }

// startTimer starts the time of Limits.TurnTimeout. It comes before the first function of the bot. ErrTurnTimeout is
// the only end of a turn's context that fails the turn. Any other end leaves the run in flight.
func (x *execution[S]) startTimer() {
	x.stopTimer()
	x.timed = x.ctx
	if d := x.limits().TurnTimeout; d > 0 {
		x.timed, x.stop = context.WithTimeoutCause(x.ctx, d, ErrTurnTimeout)
	}
}

// stopTimer stops the time of Limits.TurnTimeout.
func (x *execution[S]) stopTimer() {
	if x.stop != nil {
		x.stop()
		x.stop = nil
	}
}

// number makes the run the session's next turn.
func (x *execution[S]) number() {
	x.index = x.visit.next()
	x.run.row.Turn, x.run.row.Base = x.index, x.visit.base()
}

// newest makes the state of the newest turn the state of this turn.
func (x *execution[S]) loadNewest() (err error) {
	var newest restored[S]
	if x.visit.newest != nil {
		newest, err = x.bot.restore(x.ctx, *x.visit.newest, rest{}, x.visit.call.force)
	}
	x.state, x.altered = newest.state, newest.altered
	return err
}

// recall loads the history.
func (x *execution[S]) recall() error {
	load := x.engine().options.History
	if load == nil {
		return nil
	}
	x.worked = true
	return x.engine().functions.run(x.timed, func(ctx context.Context) (err error) {
		h, err := load(ctx, x.visit.own.Grant.Session)
		if err == nil {
			x.history = h
		}
		return err
	})
}

// turn returns the argument of a function of the bot.
func (x *execution[S]) turn(in place, b branch, attempt int, state S) *Turn[S] {
	input := x.input
	input.Data = slices.Clone(input.Data)
	wired := &struct { // in one piece
		Turn[S]
		line line
	}{
		Turn[S]{
			Session: x.visit.own.Grant.Session, Index: x.index, Iteration: x.run.payload.Iteration, RunID: x.run.row.ID,
			Input: input, State: state, Item: slices.Clone(b.item), ItemNumber: b.number, History: x.history,
			Choices: x.bot.choices, Ran: slices.Clone(x.ran), Feedback: x.run.payload.Feedback,
		},
		line{
			meter: &x.meter, home: x, place: in, intent: b.intent, item: b.number, attempt: attempt,
			session: x.visit.own.Grant.Session, run: x.run.row.ID, turn: x.index, iteration: x.run.payload.Iteration,
			fence: x.visit.own.Grant.Fence, by: input.By, began: x.since,
		},
	}
	wired.Turn.line = &wired.line
	return &wired.Turn
}

// hook runs Begin, Route, Evaluate or the Then of an intent on the turn's own state, unless ctx or the session is over.
func (x *execution[S]) hook(
	ctx context.Context, in place, intent string, fn func(context.Context, *Turn[S]) error,
) error {
	if err := x.over(ctx); err != nil {
		return err
	}
	x.worked = true
	t := x.turn(in, branch{intent: intent}, 0, x.state)
	ctx = withLine(ctx, t.line)
	defer t.line.end()
	if err := x.engine().functions.run(ctx, func(ctx context.Context) error { return fn(ctx, t) }); err != nil {
		return err
	}
	x.state = t.State
	return nil
}

// over returns why ctx or the session is over, or why the ledger lets nothing more run.
func (x *execution[S]) over(ctx context.Context) error {
	if err := x.visit.own.Lost(); err != nil {
		return err
	}
	if err := ctxcause.Of(ctx); err != nil {
		return err
	}
	return x.effects.failure()
}

// keep makes the state part of the next save.
func (x *execution[S]) keep() error { return x.keepWithin(x.limits().State) }

// keepWithin is keep with another limit than Limits.State.
func (x *execution[S]) keepWithin(limit int) error {
	if x.engine().options.Snapshots == nil {
		return nil
	}
	raw, err := encodeState(&x.state, limit)
	if err == nil {
		x.run.payload.State = raw
	}
	return err
}

// used is the usage of the run so far, as it is saved.
func (x *execution[S]) used() spent { return x.meter.spent() }

// put saves everything but a fan-out.
func (x *execution[S]) put(change func(*snapshot.Run)) error { return x.putWith(nil, change) }

// putWith saves everything, with the parts of a fan-out.
func (x *execution[S]) putWith(parts map[string]json.RawMessage, change func(*snapshot.Run)) error {
	x.run.payload.Logged = max(x.run.payload.Logged, x.visit.phases.newest())
	return x.run.put(x.ctx, x.used(), parts, change)
}

// note saves a change and parts, beside what is saved.
func (x *execution[S]) note(parts map[string]json.RawMessage, change func(*snapshot.Run)) error {
	return x.run.note(x.ctx, x.used(), parts, change)
}

// trace opens the span of the turn, once. If an earlier attempt at the run was traced, the span is linked to the first
// attempt.
func (x *execution[S]) trace(resumed bool) {
	p := x.engine().meters.silent.traced()
	if p == nil {
		return
	}
	x.ctx = x.tracer.begin(x.ctx, p)
	x.tracer.run = x.run.row.ID
	x.tracer.turn.SetAttributes(
		attrOrchestrator.String(x.engine().identity.name), attrSession.String(x.visit.own.Grant.Session),
		attrRun.String(x.run.row.ID), attrTurn.Int(x.index), attrResumed.Bool(resumed))
	if resumed {
		x.tracer.link(x.run.payload.Trace)
	}
	if x.run.payload.Trace == "" {
		x.run.payload.Trace = traceparent(x.ctx)
	}
}

func (x *execution[S]) emit(ev Event) {
	ev.RunID, ev.Turn, ev.Iteration = x.run.row.ID, x.index, x.run.payload.Iteration
	ev.RequestID, ev.Origin = x.run.row.RequestID, x.input.Origin
	if ev.Kind != EffectReplayed {
		ev.By = x.input.By
	}
	if ev.Kind == TurnStarted && ev.Origin == FromAnswer {
		x.logger().InfoContext(x.ctx, "a person has answered", "session", x.visit.own.Grant.Session, "run", ev.RunID,
			"request", ev.RequestID, "by", ev.By)
	}
	if ev.Kind.outcome() != "" {
		if !x.began.IsZero() {
			ev.Took = time.Since(x.began)
		}
		x.tracer.end(ev)
	}
	x.visit.emit(ev)
}

// spent counts what a function of the bot has told of, also after the turn is over: it was spent all the same.
func (x *execution[S]) spent(u Usage) { x.engine().meters.used(u) }

func (x *execution[S]) logger() *slog.Logger { return x.engine().log }

// err returns err as an error of this run.
func (x *execution[S]) err(op string, err error) *Error {
	return &Error{
		Op: op, Session: x.visit.own.Grant.Session, Turn: x.index, RunID: x.run.row.ID,
		Usage: x.meter.total(), Err: err,
	}
}

// mine returns err as an error of this run. Most errors are one already.
func (x *execution[S]) mine(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return x.err("settle", err)
}
