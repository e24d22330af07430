package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A flight takes one run to its end, in this process. It knows nothing of the state of the turn.
type flight struct {
	visit *visit
	run   run
	input Input
	put   *put // nil: the input is one of Execute

	// index is the number of the turn that the run will be.
	index int

	// ctx is the context of the session, with the span of the turn.
	ctx    context.Context
	tracer tracer
	times  times
	stage  stage

	// adopted says that the run was found in flight, so that an earlier owner may have left effects.
	adopted bool

	// worked says that a function of the bot has run since the last progress was saved.
	worked  bool
	effects effects
}

// take makes x the flight of a visit.
func (x *flight) take(v *visit) {
	x.visit, x.ctx, x.times.ctx = v, v.own.Ctx, v.own.Ctx
	x.run.slot, x.run.cargo.enter, x.effects.of = &v.slot, v.phases.enterAnew, x
}

// kill is for a function of the bot that goes on although its context has ended. The engine no longer hears it, and the
// lease is left to expire.
func (x *flight) kill() {
	x.run.meter.kill()
	x.visit.own.Lose(errStuck)
}

// start starts the time of Limits.TurnTimeout, which is d. It comes before the first function of the bot.
// ErrTurnTimeout is the only end of a turn's context that fails the turn. Any other end leaves the run in flight.
func (t *times) start(ctx context.Context, d time.Duration) {
	t.end()
	t.ctx = ctx
	if d > 0 {
		t.ctx, t.stop = context.WithTimeoutCause(ctx, d, ErrTurnTimeout)
	}
}

// end stops the time of Limits.TurnTimeout.
func (t *times) end() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// effects are what the functions of a flight do to the world, once.
type effects struct {
	of   *flight
	book book
}

// returned is told that the function of a line has done its work.
func (fx *effects) returned(l *line) {
	fx.strays(l.asker)
	fx.book.foresee(l.upcoming)
}

// strays logs that a function has called what was recorded, and that it was not found. What such a call is named by
// differs from attempt to attempt, so each crash makes it again.
func (fx *effects) strays(by asker) {
	if name := fx.book.stray(by); name != "" {
		fx.of.logger().WarnContext(fx.of.ctx,
			"a recorded call was made again: what names it differs from attempt to attempt",
			"session", fx.of.visit.own.Grant.Session, "run", fx.of.run.row.ID, "intent", by.intent, "name", name)
	}
}

// A put is what a call of Put asks for. Its turn has no run in the snapshot store.
type put struct{ version int }

// check returns a *VersionError if a session with so many turns is not what the call asks for.
func (p *put) check(turns int) error {
	if p.version == AnyVersion || p.version == turns || p.version == NoTurns && turns == 0 {
		return nil
	}
	return &VersionError{Want: max(p.version, 0), Now: turns}
}

// The times of a flight.
type times struct {
	// since is when the run began, by the clock of a store. It is zero if the input has a request id: an earlier call
	// may have begun the run, or one that a store has lost.
	since time.Time

	// began is when this flight began to work on the turn.
	began time.Time

	// ctx is the context of the flight, with the time that the turn may take.
	ctx  context.Context
	stop context.CancelFunc // of ctx; nil: no time was set
}

func (x *flight) engine() *engine { return x.visit.engine }

func (x *flight) limits() *Limits { return &x.visit.engine.options.Limits }

// number makes the run the session's next turn.
func (x *flight) number() {
	x.index = x.visit.upcoming()
	x.run.row.Turn, x.run.row.Base, x.run.before = x.index, x.visit.base(), nil
	if x.visit.newest != nil {
		x.run.before = x.visit.newest.State
	}
}

// final reports whether nothing follows the turn in this call: the run is the call's own.
func (x *flight) final() bool { return x.run.row.ID == x.visit.mine }

// over returns why ctx or the session is over, or why the ledger lets nothing more run.
func (x *flight) over(ctx context.Context) error {
	if err := x.visit.own.Lost(); err != nil {
		return err
	}
	if err := ctxcause.Of(ctx); err != nil {
		return err
	}
	return x.effects.book.failure()
}

// trace opens the span of the turn, once. If an earlier attempt at the run was traced, the span is linked to the first
// attempt.
func (x *flight) trace(resumed bool) {
	e := x.engine()
	by := e.meters.silent.Tracer()
	if by == nil {
		return
	}
	x.ctx = x.tracer.begin(x.ctx, by, &e.meters, e.identity.name)
	x.tracer.run = x.run.row.ID
	x.tracer.turn.SetAttributes(attrConversation.String(x.visit.own.Grant.Session))
	x.tracer.turn.SetAttributes(attrsOf(x, resumed)...)
	if resumed {
		x.tracer.link(x.run.payload.Trace)
	}
	if x.run.payload.Trace == "" {
		x.run.payload.Trace = traceparent(x.ctx)
	}
}

// attrsOf are the attributes of the spans of a flight.
func attrsOf(x *flight, resumed bool) []attribute.KeyValue {
	return []attribute.KeyValue{
		attrOrchestrator.String(x.engine().identity.name), attrSession.String(x.visit.own.Grant.Session),
		attrRun.String(x.run.row.ID), attrTurn.Int(x.index), attrResumed.Bool(resumed),
	}
}

func (x *flight) emit(ev Event) {
	ev.RunID, ev.Turn, ev.Iteration = x.run.row.ID, x.index, x.run.payload.Iteration
	ev.RequestID, ev.Origin, ev.InputKind = x.run.row.RequestID, x.input.Origin, x.input.Kind
	if ev.Kind != EffectReplayed {
		ev.By = x.input.By
	}
	if ev.Kind == TurnStarted && ev.Origin == FromAnswer {
		x.logger().InfoContext(x.ctx, "a person has answered", "session", x.visit.own.Grant.Session, "run", ev.RunID,
			"request", ev.RequestID, "by", ev.By)
	}
	if ev.Kind.outcome() != "" {
		if !x.times.began.IsZero() {
			ev.Took = time.Since(x.times.began)
		}
		x.tracer.end(ev, x.run.meter.by())
		x.to(over)
	}
	x.visit.emit(ev)
}

// spent counts what a function of the bot has told of, also after the turn is over: it was spent all the same.
func (x *flight) spent(u Usage) { x.engine().meters.used(u) }

func (x *flight) logger() *slog.Logger { return x.engine().log }

// err returns err as an error of this run.
func (x *flight) err(op string, err error) *Error {
	return &Error{
		Op: op, Session: x.visit.own.Grant.Session, Turn: x.index, RunID: x.run.row.ID,
		Usage: x.run.meter.total(), Err: err,
	}
}

// mine returns err as an error of this run. Most errors are one already.
func (x *flight) mine(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return x.err("settle", err)
}

// save saves everything, with the parts of a fan-out.
func (x *flight) save(parts map[string]json.RawMessage, change func(*snapshot.Run)) error {
	_, err := x.saveAnd(nil, parts, change)
	return err
}

// saveAnd is save, which issues effects as run.put does.
func (x *flight) saveAnd(
	issue []ledger.Effect, parts map[string]json.RawMessage, change func(*snapshot.Run),
) (issued bool, err error) {
	x.run.payload.Logged = max(x.run.payload.Logged, x.visit.phases.newest())
	return x.run.put(x.ctx, parts, change, issue...)
}

// to moves the flight on. A way that is not in the table is a mistake in this package: it is logged, and a program with
// the race detector panics.
func (x *flight) to(next stage) {
	if !x.stage.leads(next) {
		x.logger().ErrorContext(x.ctx, "a turn took a way that it must not take", "session", x.visit.own.Grant.Session,
			"run", x.run.row.ID, "from", x.stage.String(), "to", next.String())
		if strict {
			panic(fmt.Sprintf("orchestrator: a turn that is %v cannot be %v", x.stage, next))
		}
	}
	x.stage = next
}
