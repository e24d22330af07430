package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/snapshot"
)

// errTurnTimeout is the only end of a context that fails a turn. Any other end leaves the run in flight.
var errTurnTimeout = fmt.Errorf("turn timeout: %w", context.DeadlineExceeded)

// finish takes the run to its end. final says that nothing follows in this call.
func (f *flight[S]) finish(final bool) (*Result[S], error) {
	f.final, f.began = final, time.Now()
	err := f.loop(f.limit)
	f.end()
	if err != nil {
		return nil, f.unsettled(err)
	}
	return f.settle()
}

// loop goes round until the turn may settle.
func (f *flight[S]) loop(ctx context.Context) error {
	start := f.began
	for {
		if err := f.ended(ctx); err != nil {
			return f.err("route", err)
		}
		before := f.meter.total()
		next, err := f.decide(ctx)
		if err != nil {
			return err
		}
		f.emit(Event{Kind: Routed, Next: next})
		if next.End {
			return nil
		}
		if f.memo.Iteration >= f.Limits.Iterations {
			return f.err("route", fmt.Errorf("%w: %d", ErrMaxIterations, f.Limits.Iterations))
		}
		inner, span := f.iterationSpan(ctx)
		follows, err := f.iterate(inner, next)
		endSpan(span, err)
		if err != nil {
			return err
		}
		f.step(next, time.Since(start), f.meter.total().minus(before))
		if !f.o.def.Iterate || follows.End {
			return nil
		}
		if err := f.advance(follows); err != nil {
			return err
		}
		start = time.Now()
	}
}

// decide returns what runs now: an earlier decision, First at the start, or the answer of Route.
func (f *flight[S]) decide(ctx context.Context) (Next, error) {
	d := &f.o.def
	switch {
	case f.memo.Next != nil:
		return f.checked(f.memo.Next.next())
	case f.memo.Iteration == 0 && d.First != "":
		return To(d.First), nil
	case d.Route == nil && len(f.o.choices) == 1:
		return To(f.o.choices[0].Name), nil
	case d.Route == nil:
		return Next{}, f.err("route",
			errors.New("neither Evaluate nor an intent's Next says what follows, and there is no Route"))
	}
	next, err := f.ask(ctx, d.Route)
	if err != nil {
		return Next{}, f.err("route", err)
	}
	if next.zero() {
		return Next{}, f.err("route", errors.New("nothing decided: Route says neither To nor End"))
	}
	return f.checked(next)
}

// ask runs Route or Evaluate.
func (f *flight[S]) ask(ctx context.Context, fn func(context.Context, *Turn[S]) (Next, error)) (next Next, err error) {
	var said Next
	err = f.hook(ctx, func(ctx context.Context, t *Turn[S]) (err error) {
		said, err = fn(ctx, t)
		return err
	})
	if err != nil {
		return Next{}, err
	}
	return said, nil
}

// checked drops repetitions, cleans the text that no store accepts, and refuses a decision that cannot run.
func (f *flight[S]) checked(n Next) (Next, error) {
	n.Reason = cleanText(n.Reason)
	if n.End {
		n.Intents = nil
		return n, nil
	}
	if name, found := f.o.unknown(n.Intents); found {
		return n, f.err("route", logtext.Private(unknownIntent(name)))
	}
	n.Intents = distinct(n.Intents)
	if len(n.Intents) > f.Limits.FanOut {
		return n, f.err("route",
			fmt.Errorf("%d intents at once, and Limits.FanOut is %d", len(n.Intents), f.Limits.FanOut))
	}
	return n, nil
}

// An unknownIntent is a name in a decision of Route, Evaluate or a stored run that is no intent of the definition. A
// model may have made up the name from the words of a user.
type unknownIntent string

func (name unknownIntent) Error() string { return strconv.Quote(string(name)) + " is no intent" }

// distinct returns names in their order, each once.
func distinct(names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// iterate dispatches, merges and evaluates. It returns the decision about what follows, as far as there is one.
func (f *flight[S]) iterate(ctx context.Context, next Next) (Next, error) {
	if err := f.dispatch(ctx, next); err != nil {
		return Next{}, err
	}
	f.ran = append(slices.Clip(f.ran), next.Intents...)
	if f.o.def.Evaluate != nil {
		f.memo.Feedback = ""
		said, err := f.evaluate(ctx)
		if err != nil || !said.zero() {
			return said, err
		}
	}
	var follows Next
	for _, name := range next.Intents {
		said := f.o.def.Intents[name].Next
		follows.End = follows.End || said.End
		follows.Intents = append(follows.Intents, said.Intents...)
	}
	return follows, nil
}

func (f *flight[S]) evaluate(ctx context.Context) (Next, error) {
	next, err := f.ask(ctx, func(ctx context.Context, t *Turn[S]) (Next, error) {
		next, err := f.o.def.Evaluate(ctx, t)
		if err == nil {
			f.memo.Feedback = cleanText(t.Feedback)
		}
		return next, err
	})
	if err != nil {
		return Next{}, f.err("evaluate", err)
	}
	return f.checked(next)
}

// step notes a finished iteration. Reasons, which may be long, are not part of every save.
func (f *flight[S]) step(next Next, took time.Duration, used Usage) {
	if next.Reason != "" {
		f.reasons = append(f.reasons, make([]string, len(f.memo.Steps)+1-len(f.reasons))...)
		f.reasons[len(f.memo.Steps)] = next.Reason
		next.Reason = ""
	}
	f.memo.Steps = append(f.memo.Steps, storedStep{storeNext(next), took.Milliseconds(), storedUsage(used)})
	f.fan, f.memo.Next = nil, nil
}

// advance saves the result of an iteration, and the decision that it made.
func (f *flight[S]) advance(follows Next) error {
	f.memo.Iteration++
	if !follows.zero() {
		next := storeNext(follows)
		f.memo.Next = &next
	}
	if !f.recorded {
		return nil
	}
	if err := f.keep(); err != nil {
		return f.err("save", err)
	}
	if err := f.progress(); err != nil {
		return f.err("save", err)
	}
	return nil
}

// progress saves, and sets the attempts to 0: the run has come further.
func (f *flight[S]) progress() error {
	err := f.put(func(r *snapshot.Run) { r.Attempt = 0 })
	if err == nil {
		f.worked = false
	}
	return err
}
