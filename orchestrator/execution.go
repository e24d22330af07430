package orchestrator

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/message"
)

// An execution is a flight with the state of its turn, and with the functions of the bot that change it.
type execution[S any] struct {
	flight
	bot *Orchestrator[S]

	// change is the function of Put; nil: the input is one of Execute.
	change func(context.Context, *Turn[S]) error
	state  S

	// altered says that the state which the turn starts from is not as stored: see restored.
	altered bool
	history []message.Message

	// ran are the intents that ran, oldest first.
	ran []string

	// failed is the type of the error if OnFail settles the turn.
	failed string

	// reasons say why each step was decided. There may be fewer reasons than steps.
	reasons []string
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
	return x.engine().functions.run(x.times.ctx, func(ctx context.Context) (err error) {
		h, err := load(ctx, x.visit.own.Grant.Session)
		if err == nil {
			x.history = h
		}
		return err
	})
}

// traceSession opens the span of the run in the trace of its session. It comes when the run is in flight and its state
// is known: the state says whose session it is.
func (x *execution[S]) traceSession(resumed bool) {
	if x.tracer.turn == nil || !x.engine().options.SessionTrace {
		return
	}
	attrs := attrsOf(&x.flight, resumed)
	if x.input.Kind != "" {
		attrs = append(attrs, attrInputKind.String(x.input.Kind))
	}
	name, session := x.bot.traceOf(x.ctx, x.state)
	if name == "" || session == "" {
		name, session = x.engine().identity.name, x.visit.own.Grant.Session
	}
	x.tracer.inTrace(x.ctx, name, session, attrs)
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
			Attempt: max(1, attempt),
		},
		line{
			meter: &x.run.meter, home: &x.flight, world: &x.effects,
			asker: asker{in, b.intent, b.number}, attempt: attempt,
			origin: origin{
				session: x.visit.own.Grant.Session, run: x.run.row.ID, turn: x.index,
				iteration: x.run.payload.Iteration, fence: x.visit.own.Grant.Fence, by: input.By, began: x.times.since,
				epoch: x.run.payload.Anew, failures: x.run.payload.Failures,
			},
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
	x.effects.returned(t.line)
	x.state = t.State
	return nil
}

// keep makes the state part of the next save.
func (x *execution[S]) keep(limit int) error {
	if x.engine().options.Snapshots == nil {
		return nil
	}
	raw, err := encodeState(&x.state, limit)
	if err == nil {
		x.run.payload.State = raw
	}
	return err
}
