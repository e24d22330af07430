package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/retry"
)

// dispatch runs the intents, and makes their state that of the turn.
func (f *flight[S]) dispatch(ctx context.Context, next Next) error {
	if len(next.Intents) > 1 {
		return f.fanOut(ctx, next)
	}
	name := next.Intents[0]
	var start json.RawMessage
	if f.o.def.Intents[name].Retry.Attempts > 1 {
		var err error
		if start, err = encode(&f.state); err != nil {
			return f.err("intent", err)
		}
	}
	state, err := f.try(ctx, name, start)
	if err != nil {
		e := f.err("intent", err)
		e.Intent = name
		return e
	}
	f.state = state
	return nil
}

// try runs an intent as often as its policy says, each time on a copy of start. Without, for one attempt only, it is the
// turn's own state.
func (f *flight[S]) try(ctx context.Context, name string, start json.RawMessage) (state S, err error) {
	in := f.o.def.Intents[name]
	for attempt := 1; ; attempt++ {
		if start == nil {
			state = f.state
		} else if state, err = decode[S](start); err != nil {
			return state, err
		}
		state, err = f.attempt(ctx, name, attempt, state)
		if err == nil || attempt >= in.Retry.Attempts || ctx.Err() != nil || retry.IsPermanent(err) || errors.Is(err, errStuck) {
			return state, err
		}
		if cause := f.pause(ctx, in.Retry, attempt); cause != nil {
			return state, fmt.Errorf("%w, before another attempt after: %w", cause, err)
		}
	}
}

// pause waits before another attempt.
func (f *flight[S]) pause(ctx context.Context, p retry.Policy, failed int) error {
	if p.Wait == nil {
		return nil
	}
	var d time.Duration
	err := protect(func() error { d = p.Wait(failed); return nil })
	if err == nil && keeper.Sleep(ctx, d) != nil {
		err = ctxcause.Of(ctx)
	}
	return err
}

func (f *flight[S]) attempt(ctx context.Context, name string, attempt int, state S) (S, error) {
	in := f.o.def.Intents[name]
	t := f.turn(name, attempt, state)
	f.emit(Event{Kind: IntentStarted, Intent: name, Attempt: attempt})
	var start time.Time
	if f.call.heard() {
		start = time.Now()
	}
	ctx, span := f.intentSpan(ctx, name, attempt)
	if in.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.Timeout)
		defer cancel()
	}
	var err error
	if attempt > 1 {
		err = f.lost()
	}
	if err == nil {
		run := in.Run
		err = f.engine.run(ctx, func(ctx context.Context) error { return run(ctx, t) })
	}
	t.line.end()
	endSpan(span, err)
	if !start.IsZero() {
		f.emit(Event{Kind: IntentEnded, Intent: name, Attempt: attempt, Usage: f.meter.total(), Took: time.Since(start), Err: err})
	}
	if err != nil {
		var none S
		return none, err // what it did to the state is gone; it may even be at it still
	}
	return t.State, nil
}

// A fan collects the branches of a fan-out.
type fan struct {
	mu     sync.Mutex // protects following fields
	states map[string]json.RawMessage
	failed map[string]error
	unsent error // a save has failed
	open   int   // branches that are not finished
}

// fanOut runs several intents at once, each on a copy of the state. A branch that has finished is saved and does not run
// again; one that has failed waits for the others.
func (f *flight[S]) fanOut(ctx context.Context, next Next) error {
	start, err := encode(&f.state)
	if err != nil {
		return f.err("intent", err)
	}
	fan := &fan{states: make(map[string]json.RawMessage), failed: make(map[string]error)}
	for _, done := range f.memo.Done {
		fan.states[done.Intent] = done.State
	}
	decided := storeNext(next)
	f.memo.Next = &decided
	if f.recorded {
		f.memo.State = start // the branches are saved with what they were made from: merging compares them with it
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := slices.DeleteFunc(slices.Clone(next.Intents), func(name string) bool { return fan.states[name] != nil })
	fan.open = len(open)
	var branches sync.WaitGroup
	for _, name := range open {
		branches.Go(func() {
			state, err := f.try(ctx, name, start)
			if f.branchDone(fan, name, state, err) != nil {
				cancel()
			}
		})
	}
	branches.Wait()
	intent, err := fan.err(next.Intents)
	if fan.unsent != nil && !errors.Is(err, errStuck) {
		return f.err("save", fan.unsent)
	}
	if err != nil {
		e := f.err("intent", err)
		e.Intent = intent
		return e
	}
	return f.merge(ctx, next.Intents, fan)
}

// branchDone notes how a branch has ended, and saves it while others are under way.
func (f *flight[S]) branchDone(fan *fan, name string, state S, err error) error {
	var raw json.RawMessage
	if err == nil {
		raw, err = encode(&state)
	}
	fan.mu.Lock()
	defer fan.mu.Unlock()
	fan.open--
	if err != nil {
		fan.failed[name] = err
		return nil
	}
	fan.states[name] = raw
	f.memo.Done = append(f.memo.Done, branch{name, raw})
	if f.recorded && fan.open > 0 && fan.unsent == nil {
		fan.unsent = f.progress()
	}
	return fan.unsent
}

// err joins what the branches failed with, in the order in which they were decided.
func (fan *fan) err(names []string) (intent string, err error) {
	var all []error
	for _, name := range names {
		if err := fan.failed[name]; err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
			intent = name
		}
	}
	if len(all) > 1 {
		intent = ""
	}
	return intent, errors.Join(all...)
}

// merge makes one state of the branches.
func (f *flight[S]) merge(ctx context.Context, names []string, fan *fan) error {
	var merged S
	raws := make([]json.RawMessage, len(names))
	for i, name := range names {
		raws[i] = fan.states[name]
	}
	var err error
	if f.o.def.Merge == nil {
		merged, err = mergeStates[S](f.state, raws)
	} else {
		merged, err = f.mergeBy(ctx, raws)
	}
	if err != nil {
		return f.err("merge", err)
	}
	f.state = merged
	return nil
}

func mergeStates[S any](base S, branches []json.RawMessage) (merged S, err error) {
	raw, err := encode(&base)
	if err == nil {
		raw, err = mergeFields(raw, branches)
	}
	if err != nil {
		return merged, err
	}
	return decode[S](raw)
}

// mergeBy asks the definition.
func (f *flight[S]) mergeBy(ctx context.Context, raws []json.RawMessage) (merged S, err error) {
	states := make([]S, len(raws))
	for i, raw := range raws {
		if states[i], err = decode[S](raw); err != nil {
			return merged, err
		}
	}
	var said S
	err = f.engine.run(ctx, func(context.Context) (err error) {
		said, err = f.o.def.Merge(f.state, states)
		return err
	})
	if err != nil {
		return merged, err
	}
	return said, nil
}
