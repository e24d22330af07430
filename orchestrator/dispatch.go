package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// dispatch runs the intents. Their state becomes the state of the turn.
func (x *execution[S]) dispatch(ctx context.Context, next Next, routed bool) error {
	if len(next.Intents) > 1 || next.each != nil {
		return fanOut[S]{x}.dispatch(ctx, next, routed)
	}
	name := next.Intents[0]
	if err := x.decided(next, routed); err != nil {
		return x.err("intent", err)
	}
	x.worked = true
	var start json.RawMessage
	if x.bot.def.Intents[name].Retry.Attempts > 1 {
		var err error
		if start, err = encode(&x.state); err != nil {
			return x.err("intent", err)
		}
	}
	state, err := x.try(ctx, branch{intent: name}, start)
	if err != nil {
		e := x.err("intent", err)
		e.Intent = name
		return e
	}
	x.state = state
	return nil
}

// try runs an intent as often as its policy says, each time on a copy of start. If start is nil, there is only one
// attempt, and it gets the turn's own state.
func (x *execution[S]) try(ctx context.Context, b branch, start json.RawMessage) (state S, err error) {
	in := x.bot.def.Intents[b.intent]
	for attempt := 1; ; attempt++ {
		if start == nil {
			state = x.state
		} else if state, err = decode[S](start); err != nil {
			return state, err
		}
		state, err = x.attempt(ctx, b, attempt, state)
		if err == nil || attempt >= in.Retry.Attempts || ctx.Err() != nil || retry.IsPermanent(err) ||
			errors.Is(err, errStuck) || x.effects.asks(err) {
			return state, err
		}
		if cause := x.pause(ctx, in.Retry, attempt); cause != nil {
			return state, fmt.Errorf("%w, before another attempt after: %w", cause, err)
		}
	}
}

// pause waits before another attempt.
func (x *execution[S]) pause(ctx context.Context, p retry.Policy, failed int) error {
	if p.Wait == nil {
		return nil
	}
	d, err := x.engine().functions.pause(ctx, func() time.Duration { return p.Wait(failed) })
	if err == nil && keeper.Sleep(ctx, d) != nil {
		err = ctxcause.Of(ctx)
	}
	return err
}

// attempt runs an intent once, unless ctx or the session is over.
func (x *execution[S]) attempt(ctx context.Context, b branch, attempt int, state S) (none S, err error) {
	if err := x.over(ctx); err != nil {
		return none, err
	}
	in := x.bot.def.Intents[b.intent]
	t := x.turn(inIntent, b, attempt, state)
	x.emit(Event{Kind: IntentStarted, Intent: b.intent, Item: b.number, Attempt: attempt})
	var start time.Time
	if x.visit.call.heard() {
		start = time.Now()
	}
	ctx, span := x.tracer.intent(withLine(ctx, t.line), b, attempt)
	if in.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, in.Timeout, ErrIntentTimeout)
		defer cancel()
	}
	run := in.Run
	err = x.engine().functions.run(ctx, func(ctx context.Context) error { return run(ctx, t) })
	t.line.end()
	endSpan(span, err)
	if !start.IsZero() {
		x.emit(Event{
			Kind: IntentEnded, Intent: b.intent, Item: b.number, Attempt: t.line.attempts(),
			Usage: x.run.meter.total(), Took: time.Since(start), Err: logtext.Public(err),
		})
	}
	if err != nil {
		return none, err // its changes to the state are gone; it may still be running
	}
	x.effects.returned(t.line)
	return t.State, nil
}

// A fanOut runs the branches of an execution.
type fanOut[S any] struct{ *execution[S] }

// dispatch runs several branches, Limits.FanOut at once, each on a copy of the state. A branch that has finished is
// saved and does not run again. A branch that has failed waits for the others.
func (x fanOut[S]) dispatch(ctx context.Context, next Next, routed bool) error {
	if err := x.spread(next); err != nil {
		return x.err("intent", err)
	}
	if err := x.decided(next, routed); err != nil {
		return x.err("intent", err)
	}
	if err := x.claimItems(); err != nil {
		return x.err("save", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.worked = true
	x.runOpen(ctx, cancel)
	intent, err := x.run.fan.failure()
	if x.run.fan.unsent != nil && !errors.Is(err, errStuck) {
		return x.err("save", x.run.fan.unsent)
	}
	if err != nil {
		e := x.err("intent", err)
		e.Intent = intent
		return e
	}
	return x.merge(ctx)
}

// claimItems saves the run under itemsVersion before a branch runs for an item. A process that knows no items sees only
// the version of the payload, and would drop the branches. The decision is saved on the way.
func (x fanOut[S]) claimItems() (err error) {
	if !x.run.inStore || x.run.fan.decided.Next.Each == nil || x.run.saved().payload.V >= itemsVersion {
		return nil
	}
	x.run.payload.V = itemsVersion
	x.run.decision.Load().into(&x.run.payload)
	parts, err := x.run.allParts(&x.run.payload)
	if err == nil {
		err = x.save(parts, func(*snapshot.Run) {})
	}
	if err == nil && parts != nil {
		x.run.fan.stored, x.run.fan.unsaved = true, nil
	}
	return err
}

// runOpen runs the branches that have not finished, in their order. It calls cancel if a branch cannot be saved. If ctx
// ends, the branches that still wait do not start.
func (x fanOut[S]) runOpen(ctx context.Context, cancel func()) {
	fan := x.run.fan
	var open []int
	for i := range fan.branches {
		if _, done := fan.done[i]; !done {
			open = append(open, i)
		}
	}
	fan.open = len(open)
	var branches sync.WaitGroup
	slots := make(chan struct{}, min(len(open), x.limits().FanOut))
	for _, i := range open {
		slots <- struct{}{}
		if !fan.startable() {
			break
		}
		if err := x.over(ctx); err != nil {
			_ = x.branchDone(i, x.state, err) // the error stands for the branches that wait
			break
		}
		branches.Go(func() {
			defer func() { <-slots }()
			state, err := x.try(ctx, fan.branches[i], fan.start)
			if x.branchDone(i, state, err) != nil {
				cancel()
			}
		})
	}
	branches.Wait()
}

// spread begins a fan-out, or goes on with the fan-out that was found. It drops the found branches that do not fit the
// state.
func (x fanOut[S]) spread(next Next) error {
	start, err := encode(&x.state)
	if err != nil {
		return err
	}
	if decided := storeNext(next); x.run.fan == nil || !x.run.fan.decided.Next.same(decided) {
		x.run.fan = newFan(storedFan{
			Signature: x.engine().identity.signature, Iteration: x.run.payload.Iteration,
			Next: decided, ID: x.run.row.Seq,
		})
	}
	x.run.fan.start, x.run.fan.bot = start, &x.bot.codec
	for i, b := range x.run.fan.done {
		state, err := decode[S](start)
		if err == nil {
			_, err = onto(state, b.Change)
		}
		if err != nil {
			delete(x.run.fan.done, i) // a definition with other names of fields wrote it: it runs again
		}
	}
	return nil
}

// branchDone notes the end of a branch, and saves the branch while others run.
func (x fanOut[S]) branchDone(i int, state S, err error) error {
	fan := x.run.fan
	b := storedBranch{Intent: fan.branches[i].intent, Fan: fan.decided.ID}
	if err == nil {
		b.Change, err = changed(fan.start, state)
	}
	if err == nil {
		err = fits("state", b.Change.State, x.limits().State)
	}
	if err == nil {
		err = x.effects.book.failure() // which the intent has kept to itself
		b.Effects = x.effects.book.askedBy(asker{inIntent, b.Intent, fan.branches[i].number})
	}
	fan.mu.Lock()
	defer fan.mu.Unlock()
	fan.open--
	if err != nil {
		fan.failed[i] = err
		fan.stuck = fan.stuck || errors.Is(err, errStuck)
		return nil
	}
	fan.done[i] = b
	fan.unsaved = append(fan.unsaved, i)
	if x.run.inStore && fan.open > 0 && fan.unsent == nil {
		fan.unsent = x.run.saveBranches(x.ctx)
	}
	return fan.unsent
}

// merge makes one state of the branches.
func (x fanOut[S]) merge(ctx context.Context) error {
	branches := make([]change, len(x.run.fan.branches))
	for i := range branches {
		branches[i] = x.run.fan.done[i].Change
		branches[i].by = x.run.fan.branches[i].String()
	}
	if len(branches) == 0 {
		return nil
	}
	var merged S
	var err error
	if x.bot.def.Merge == nil {
		if merged, err = decode[S](x.run.fan.start); err == nil {
			merged, err = mergeChanges(merged, branches)
		}
	} else {
		merged, err = x.mergeBy(ctx, branches)
	}
	if err != nil {
		return x.err("merge", err)
	}
	x.state = merged
	return nil
}

// mergeBy calls Definition.Merge.
func (x fanOut[S]) mergeBy(ctx context.Context, branches []change) (merged S, err error) {
	states := make([]S, len(branches))
	for i, c := range branches {
		if states[i], err = decode[S](x.run.fan.start); err != nil {
			return merged, err
		}
		if states[i], err = onto(states[i], c); err != nil {
			return merged, err
		}
	}
	if err := x.over(ctx); err != nil {
		return merged, err
	}
	var said S
	err = x.engine().functions.run(ctx, func(context.Context) (err error) {
		said, err = x.bot.def.Merge(x.state, states)
		return err
	})
	if err != nil {
		return merged, err
	}
	return said, nil
}
