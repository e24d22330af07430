package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// work takes a run that has begun to its end.
func (x *execution[S]) work() (*Result[S], error) {
	x.times.began = time.Now()
	x.run.cargo.carries(x.run.inStore && x.engine().carry != nil)
	err := x.logStarted()
	if err == nil {
		x.to(recorded)
	}
	if err == nil && x.put == nil {
		err = x.loop(x.times.ctx)
	}
	x.times.end()
	if err != nil {
		return x.fail(x.cause(err))
	}
	return x.settle()
}

// loop goes round until the turn may settle.
func (x *execution[S]) loop(ctx context.Context) error {
	start := x.times.began
	for {
		if err := x.over(ctx); err != nil {
			return x.err("route", err)
		}
		x.to(deciding)
		before := x.run.payload.Usage.usage() // an earlier process may have begun the iteration
		next, routed, err := x.decide(ctx)
		if err != nil {
			return err
		}
		x.emit(Event{Kind: Routed, Next: next})
		if next.End {
			return nil
		}
		if x.run.payload.Iteration >= x.limits().Iterations {
			return x.err("route", fmt.Errorf("%w: Limits.Iterations is %d", ErrMaxIterations, x.limits().Iterations))
		}
		inner, span := x.tracer.iteration(ctx, x.run.payload.Iteration)
		follows, err := x.iterate(inner, next, routed)
		endSpan(span, err)
		if err != nil {
			return err
		}
		x.step(next, time.Since(start), x.run.meter.total().minus(before))
		if !x.bot.def.Iterate || follows.End {
			return nil
		}
		if err := x.advance(follows); err != nil {
			return err
		}
		start = time.Now()
	}
}

// decide returns what runs now: an earlier decision, First at the start, or the answer of Route. routed says that Route
// was asked.
func (x *execution[S]) decide(ctx context.Context) (next Next, routed bool, err error) {
	d, saved := &x.bot.def, x.run.payload.Next
	switch {
	case saved != nil && (saved == x.bot.first || saved == x.bot.only): // New has checked it
		return To(slices.Clone(saved.Intents)...), false, nil // callers get it in Result.Steps
	case saved != nil:
		// A process with other Limits may have decided it.
		next, err = x.checkedWithin(saved.next(), math.MaxInt, mostState)
		return next, false, err
	case x.run.payload.Iteration == 0 && d.First != "":
		return To(d.First), false, nil
	case d.Route == nil && len(x.bot.choices) == 1:
		return To(x.bot.choices[0].Name), false, nil
	case d.Route == nil:
		return Next{}, false, x.err("route",
			errors.New("neither Evaluate nor an intent's Next says what follows, and there is no Route"))
	}
	next, err = x.ask(ctx, inRoute, "", d.Route)
	if err != nil {
		return Next{}, true, x.err("route", err)
	}
	if next.zero() {
		return Next{}, true, x.err("route", errors.New("nothing decided: Route says neither To nor End"))
	}
	next, err = x.checked(next)
	return next, true, err
}

// ask runs Route, Evaluate or the Then of an intent.
func (x *execution[S]) ask(
	ctx context.Context, in place, intent string, fn func(context.Context, *Turn[S]) (Next, error),
) (Next, error) {
	var said Next
	err := x.hook(ctx, in, intent, func(ctx context.Context, t *Turn[S]) (err error) {
		said, err = fn(ctx, t)
		return err
	})
	if err != nil {
		return Next{}, err
	}
	return said, nil
}

// checked is checkedWithin for a decision that is new.
func (x *execution[S]) checked(n Next) (Next, error) {
	return x.checkedWithin(n, x.limits().FanOut, x.limits().State)
}

// checkedWithin drops repetitions, cleans the text that no store accepts, and refuses a decision that cannot run, that
// has more than most intents, or items that are larger than size.
func (x *execution[S]) checkedWithin(n Next, most, size int) (Next, error) {
	n.Reason = cleanText(n.Reason)
	if n.End {
		return Next{End: true, Reason: n.Reason}, nil
	}
	if err := n.checkItems(size); err != nil {
		return n, x.err("route", err)
	}
	if name, found := x.engine().identity.unknown(n.Intents); found {
		return n, x.err("route", logtext.Private(unknownIntent(name)))
	}
	n.Intents = distinct(n.Intents)
	if len(n.Intents) > most {
		return n, x.err("route", fmt.Errorf("%d intents at once, and Limits.FanOut is %d", len(n.Intents), most))
	}
	return n, nil
}

// An unknownIntent is a name in a decision of Route, Evaluate or a stored run that is no intent of the definition. A
// model may have made up the name from the words of a user.
type unknownIntent string

func (name unknownIntent) Error() string { return strconv.Quote(string(name)) + " is no intent" }

// iterate dispatches, merges and evaluates. It returns the decision about what follows, as far as there is one.
func (x *execution[S]) iterate(ctx context.Context, next Next, routed bool) (Next, error) {
	x.to(working)
	if err := x.dispatch(ctx, next, routed); err != nil {
		return Next{}, err
	}
	if err := x.effects.book.failure(); err != nil { // which the intent has kept to itself
		return Next{}, x.err("save", err)
	}
	x.to(judging)
	x.ran = append(slices.Clip(x.ran), next.ran()...)
	if x.bot.def.Evaluate != nil {
		x.run.payload.Feedback = ""
		said, err := x.evaluate(ctx)
		if err != nil || !said.zero() {
			return said, err
		}
	}
	return x.afterwards(ctx, next.Intents)
}

// afterwards returns the union of what the intents say by Next and Then.
func (x *execution[S]) afterwards(ctx context.Context, intents []string) (Next, error) {
	var follows Next
	for _, name := range intents {
		in := x.bot.def.Intents[name]
		said := in.Next
		if in.Then != nil {
			var err error
			if said, err = x.ask(ctx, inThen, name, in.Then); err != nil {
				e := x.err("then", err)
				e.Intent = name
				return Next{}, e
			}
		}
		follows = follows.And(said)
	}
	if follows.zero() {
		return follows, nil
	}
	return x.checked(follows)
}

func (x *execution[S]) evaluate(ctx context.Context) (Next, error) {
	next, err := x.ask(ctx, inEvaluate, "", func(ctx context.Context, t *Turn[S]) (Next, error) {
		next, err := x.bot.def.Evaluate(ctx, t)
		if err == nil {
			x.run.payload.Feedback = cleanText(t.Feedback)
		}
		return next, err
	})
	if err != nil {
		return Next{}, x.err("evaluate", err)
	}
	if next.zero() {
		return next, nil
	}
	return x.checked(next)
}

// step notes a finished iteration. Reasons, which may be long, are not part of every save.
func (x *execution[S]) step(next Next, took time.Duration, used Usage) {
	if next.Reason != "" {
		x.reasons = append(x.reasons, make([]string, len(x.run.payload.Steps)+1-len(x.reasons))...)
		x.reasons[len(x.run.payload.Steps)] = next.Reason
		next.Reason = ""
	}
	decided := storeNext(next)
	decided.items = nil
	step := storedStep{decided, took.Milliseconds(), stored(used)}
	x.run.payload.Steps = append(x.run.payload.Steps, step)
	x.run.fan, x.run.payload.Next = nil, nil
	x.run.decision.Store(nil)
}

// advance saves the result of an iteration, and the decision that it made. After that nobody asks for the effects of
// the iteration.
func (x *execution[S]) advance(follows Next) error {
	if err := x.effects.allAsked(); err != nil {
		return x.err("save", err)
	}
	x.effects.notBegun()
	x.run.payload.Iteration++
	x.run.meter.iterated()
	x.run.payload.Usage = x.run.meter.spent().storedUsage
	x.run.payload.Next, x.run.payload.Asked = x.bot.only, nil
	if !follows.zero() {
		next := storeNext(follows)
		x.run.payload.Next = &next
	}
	if !x.run.inStore {
		return nil
	}
	if err := x.keep(x.limits().State); err != nil {
		return x.err("save", err)
	}
	if err := x.progress(x.effects.upcoming(follows)); err != nil {
		return x.err("save", err)
	}
	return nil
}

// progress saves, and sets the attempts to 0: the run has come further. It issues the effects that the next iteration
// begins with, if the stores are joined.
func (x *flight) progress(issue []ledger.Effect) error {
	issued, err := x.saveAnd(issue, nil, func(r *snapshot.Run) { r.Attempt = 0 })
	if issued {
		x.effects.book.ahead(issue)
	}
	if err == nil {
		x.worked = false
	}
	return err
}
