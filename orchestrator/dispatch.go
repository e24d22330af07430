package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// dispatch runs the intents. Their state becomes the state of the turn.
func (f *flight[S]) dispatch(ctx context.Context, next Next) error {
	if len(next.Intents) > 1 {
		return f.fanOut(ctx, next)
	}
	name := next.Intents[0]
	f.worked = true
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

// try runs an intent as often as its policy says, each time on a copy of start. If start is nil, there is only one
// attempt, and it gets the turn's own state.
func (f *flight[S]) try(ctx context.Context, name string, start json.RawMessage) (state S, err error) {
	in := f.o.def.Intents[name]
	for attempt := 1; ; attempt++ {
		if start == nil {
			state = f.state
		} else if state, err = decode[S](start); err != nil {
			return state, err
		}
		state, err = f.attempt(ctx, name, attempt, state)
		if err == nil || attempt >= in.Retry.Attempts || ctx.Err() != nil || retry.IsPermanent(err) ||
			errors.Is(err, errStuck) {
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
	d, err := f.policyPause(ctx, func() time.Duration { return p.Wait(failed) })
	if err == nil && keeper.Sleep(ctx, d) != nil {
		err = ctxcause.Of(ctx)
	}
	return err
}

// policyPause returns the pause that a policy says. The policy has no context: it gets Limits.SettleTimeout to answer.
func (e *engine) policyPause(ctx context.Context, policy func() time.Duration) (d time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.Limits.SettleTimeout)
	defer cancel()
	said := make(chan time.Duration, 1)
	failed := make(chan error, 1)
	over := new(atomic.Bool)
	go func() {
		err := errGoexit
		defer func() {
			e.returned(over)
			failed <- err
		}()
		err = logtext.Private(protect(func() error { said <- policy(); return nil }))
	}()
	select {
	case err := <-failed:
		if err != nil {
			return 0, fmt.Errorf("Retry.Wait: %w", err)
		}
		return <-said, nil
	case <-ctx.Done():
		e.giveUp(ctx, over)
		return 0, fmt.Errorf("Retry.Wait has not returned: %w", ctxcause.Of(ctx))
	}
}

// attempt runs an intent once, unless ctx or the session is over.
func (f *flight[S]) attempt(ctx context.Context, name string, attempt int, state S) (none S, err error) {
	if err := f.ended(ctx); err != nil {
		return none, err
	}
	in := f.o.def.Intents[name]
	t := f.turn(name, attempt, state)
	f.emit(Event{Kind: IntentStarted, Intent: name, Attempt: attempt})
	var start time.Time
	if f.call.heard() {
		start = time.Now()
	}
	ctx, span := f.intentSpan(withLine(ctx, t.line), name, attempt)
	if in.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.Timeout)
		defer cancel()
	}
	run := in.Run
	err = f.engine.run(ctx, func(ctx context.Context) error { return run(ctx, t) })
	t.line.end()
	endSpan(span, err)
	if !start.IsZero() {
		f.emit(Event{
			Kind: IntentEnded, Intent: name, Attempt: attempt, Usage: f.meter.total(), Took: time.Since(start),
			Err: logtext.Public(err),
		})
	}
	if err != nil {
		return none, err // its changes to the state are gone; it may still be running
	}
	return t.State, nil
}

// A fan is a fan-out in progress. Its branches are named by their place in the decision.
type fan struct {
	decided storedFan
	start   json.RawMessage // the state that every branch gets
	stored  bool            // the snapshot store has the decision

	mu   sync.Mutex // protects following fields
	done map[int]storedBranch

	// saved says which branches of done the snapshot store has.
	saved  map[int]bool
	failed map[int]error
	unsent error // the error of a failed save
	open   int   // branches that are not finished
}

func newFan(decided storedFan) *fan {
	return &fan{
		decided: decided, done: make(map[int]storedBranch), saved: make(map[int]bool), failed: make(map[int]error),
	}
}

func branchName(i int) string { return branchPart + strconv.Itoa(i) }

// fanOut runs several intents at once, each on a copy of the state. A branch that has finished is saved and does not
// run again. A branch that has failed waits for the others.
func (f *flight[S]) fanOut(ctx context.Context, next Next) error {
	if err := f.spread(next); err != nil {
		return f.err("intent", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.worked = true
	var open []int
	for i := range next.Intents {
		if _, done := f.fan.done[i]; !done {
			open = append(open, i)
		}
	}
	f.fan.open = len(open)
	var branches sync.WaitGroup
	for _, i := range open {
		branches.Go(func() {
			state, err := f.try(ctx, next.Intents[i], f.fan.start)
			if f.branchDone(i, state, err) != nil {
				cancel()
			}
		})
	}
	branches.Wait()
	intent, err := f.fan.err()
	if f.fan.unsent != nil && !errors.Is(err, errStuck) {
		return f.err("save", f.fan.unsent)
	}
	if err != nil {
		e := f.err("intent", err)
		e.Intent = intent
		return e
	}
	return f.merge(ctx)
}

// spread begins a fan-out, or goes on with the fan-out that was found. It drops the found branches that do not fit the
// state.
func (f *flight[S]) spread(next Next) error {
	start, err := encodeState(f.engine, &f.state)
	if err != nil {
		return err
	}
	if f.fan == nil || !slices.Equal(f.fan.decided.Next.Intents, next.Intents) {
		f.fan = newFan(storedFan{Iteration: f.memo.Iteration, Next: storeNext(next)})
	}
	f.fan.start = start
	for i, b := range f.fan.done {
		state, err := decode[S](start)
		if err == nil {
			_, err = onto(state, b.Change)
		}
		if err != nil {
			delete(f.fan.done, i) // a definition with other names of fields wrote it: it runs again
		}
	}
	return nil
}

// branchDone notes the end of a branch, and saves the branch while others run.
func (f *flight[S]) branchDone(i int, state S, err error) error {
	fan := f.fan
	b := storedBranch{Intent: fan.decided.Next.Intents[i]}
	if err == nil {
		b.Change, err = f.changed(fan.start, state)
	}
	if err == nil {
		err = f.fits(b.Change.State)
	}
	fan.mu.Lock()
	defer fan.mu.Unlock()
	fan.open--
	if err != nil {
		fan.failed[i] = err
		return nil
	}
	fan.done[i] = b
	if f.recorded && fan.open > 0 && fan.unsent == nil {
		fan.unsent = f.saveBranches()
	}
	return fan.unsent
}

// changed returns the changes that a branch made to the state that it was given.
func (f *flight[S]) changed(start json.RawMessage, after S) (change, error) {
	before, err := decode[S](start)
	if err != nil {
		return change{}, err
	}
	return changes(before, after)
}

// saveBranches saves the branches that have finished. Such a save is progress.
func (f *flight[S]) saveBranches() error {
	parts, err := f.unsavedParts()
	if err != nil {
		return err
	}
	if err := f.note(parts, func(r *snapshot.Run) { r.Attempt = 0 }); err != nil {
		return err
	}
	f.fan.stored = true
	for i := range f.fan.done {
		f.fan.saved[i] = true
	}
	return nil
}

// unsavedParts returns the parts of the current fan-out that the snapshot store does not have. The state that the
// branches were given is among them only if a resume has no other source of it.
func (f *flight[S]) unsavedParts() (map[string]json.RawMessage, error) {
	fan := f.fan
	if fan == nil || len(fan.done) == 0 {
		return nil, nil
	}
	parts := make(map[string]json.RawMessage)
	var err error
	if !fan.stored {
		decided := fan.decided
		if decided.State, err = f.unsavedState(); err != nil {
			return nil, err
		}
		if parts[fanPart], err = json.Marshal(decided); err != nil {
			return nil, err
		}
	}
	for i, b := range fan.done {
		if fan.saved[i] {
			continue
		}
		if parts[branchName(i)], err = json.Marshal(b); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// unsavedState returns the state of the fan-out. It returns nil if a resume has that state already: from the saved run,
// or from the newest turn.
func (f *flight[S]) unsavedState() (json.RawMessage, error) {
	before := f.saved.memo.State
	if before == nil {
		var zero S
		if f.last != nil {
			if !f.wrote(f.last.Signature, f.last.Version) {
				return f.fan.start, nil
			}
			before = f.last.State
		} else if raw, err := encode(&zero); err == nil {
			before = raw
		}
	}
	state, err := decode[S](before)
	if err != nil {
		return nil, err
	}
	c, err := f.changed(f.fan.start, state)
	if err != nil || len(c.Fields) == 0 {
		return nil, err
	}
	return f.fan.start, nil
}

// err joins the errors of the branches, in the order of the decision.
func (fan *fan) err() (intent string, err error) {
	var all []error
	for i, name := range fan.decided.Next.Intents {
		if err := fan.failed[i]; err != nil {
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
func (f *flight[S]) merge(ctx context.Context) error {
	branches := make([]change, len(f.fan.decided.Next.Intents))
	for i := range branches {
		branches[i] = f.fan.done[i].Change
	}
	var merged S
	var err error
	if f.o.def.Merge == nil {
		if merged, err = decode[S](f.fan.start); err == nil {
			merged, err = mergeChanges(merged, branches)
		}
	} else {
		merged, err = f.mergeBy(ctx, branches)
	}
	if err != nil {
		return f.err("merge", err)
	}
	f.state = merged
	return nil
}

// mergeBy calls Definition.Merge.
func (f *flight[S]) mergeBy(ctx context.Context, branches []change) (merged S, err error) {
	states := make([]S, len(branches))
	for i, c := range branches {
		if states[i], err = decode[S](f.fan.start); err != nil {
			return merged, err
		}
		if states[i], err = onto(states[i], c); err != nil {
			return merged, err
		}
	}
	if err := f.ended(ctx); err != nil {
		return merged, err
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
