package flow

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/workflow"
)

// A Future is the outcome of a branch.
type Future[T any] struct {
	run   *Run // of the goroutine that began the branch
	done  chan struct{}
	value T
	err   error
	ended bool // false after done: the branch has parked
}

// Go runs fn beside the rest of the body. fn calls verbs with the Run that it gets, never with r. What fn does is in
// the journal under name and a slash. A run ends when its branches have ended too. A panic of fn is an error of Join.
func Go[T any](r *Run, name string, fn func(r *Run) (T, error)) *Future[T] {
	return begin(r, name, fn, func(bool) {})
}

// begin is Go. It calls after when the branch has ended, or parked.
func begin[T any](r *Run, name string, fn func(r *Run) (T, error), after func(ended bool)) *Future[T] {
	f := &Future[T]{run: r, done: make(chan struct{})}
	if err := r.branchOff(name); err != nil {
		f.err, f.ended = err, true
		close(f.done)
		after(true)
		return f
	}
	x, b := r.stay, &Run{stay: r.stay, branch: r.branch + name + "/"}
	x.branches.Add(1)
	x.living.Add(1)
	go func() {
		defer x.branches.Done()
		defer func() { after(f.ended) }()
		defer close(f.done)
		defer x.living.Add(-1)
		defer f.end(b)
		f.err = errExit // unless fn returns, or panics
		err := guard(func() error {
			f.value, f.err = fn(b)
			return nil
		})
		if err != nil {
			x.log().Error("branch panicked", "branch", b.branch, "err", err.Error())
			f.err = err
		}
	}()
	return f
}

// end notes that the function of a branch has ended. It does nothing if the branch has parked.
func (f *Future[T]) end(b *Run) {
	if b.ended.Load() { // it has parked
		return
	}
	if err := b.end(); err != nil {
		f.err = err
	}
	f.ended = true
}

// branchOff checks that a branch may begin.
func (r *Run) branchOff(name string) error {
	x := r.stay
	switch err := workflow.ValidateStepName(r.branch + name); {
	case x.over.Load() || r.ended.Load():
		return errOutside
	case r.busy.Load():
		return beside("branch", name)
	case err != nil:
		return err
	case strings.Contains(name, "/"):
		return fmt.Errorf("%w: branch %q: a slash is for branches of branches", workflow.ErrInvalid, name)
	}
	if !x.branch(r.branch + name + "/") {
		return fmt.Errorf("%w: branch %q twice", workflow.ErrInvalid, name)
	}
	if x.stops() {
		r.exit()
	}
	r.flush() // what the branch does comes after what its parent did
	return nil
}

// Join waits for a branch. If the branch sleeps or waits, the run is given back until it goes on. Join is for the
// goroutine that called Go, and is an error in another branch while a verb, or a Join, of that goroutine is running.
func (f *Future[T]) Join() (value T, err error) {
	if err := f.run.rest(f.done); err != nil {
		return value, err
	}
	if !f.ended {
		f.run.exit()
	}
	return f.value, f.err
}

// rest receives from c, while other branches go on.
func (r *Run) rest(c <-chan struct{}) error {
	if err := r.begin("Join", ""); err != nil {
		return err
	}
	defer r.leave()
	select {
	case <-c:
		return nil
	default:
	}
	r.flush()
	r.stay.living.Add(-1)
	<-c
	r.stay.living.Add(1)
	return nil
}

// All joins branches in their order. It returns all errors, joined, after all have ended.
func All[T any](futures ...*Future[T]) ([]T, error) {
	values, errs := make([]T, len(futures)), make([]error, len(futures))
	for i, f := range futures {
		values[i], errs[i] = f.Join()
	}
	return values, errors.Join(errs...)
}

// Each is Go and All over items: fn runs for each item, at most limit at a time, in branches called name-0, name-1 and
// so on. A branch that sleeps or waits counts. A limit of 0 is none.
func Each[In, Out any](
	r *Run, name string, items []In, limit int, fn func(r *Run, item In) (Out, error),
) ([]Out, error) {
	if limit <= 0 {
		limit = len(items)
	}
	all := make([]*Future[Out], 0, len(items))
	room := make(chan struct{}, len(items)) // one for each branch that has ended or parked
	var ended, parked atomic.Int64
	after := func(end bool) {
		if end {
			ended.Add(1)
		} else {
			parked.Add(1)
		}
		room <- struct{}{}
	}
	running := func() int { return len(all) - int(ended.Load()) } // those that have parked too
	for i, item := range items {
		for running() >= limit && running() > int(parked.Load()) {
			if err := r.rest(room); err != nil {
				return nil, err
			}
		}
		if running() >= limit { // all of them have parked
			break
		}
		all = append(all, begin(r, fmt.Sprintf("%s-%d", name, i), func(b *Run) (Out, error) {
			return fn(b, item)
		}, after))
	}
	values, err := All(all...)
	if len(all) < len(items) {
		r.exit()
	}
	return values, err
}

// Patch reports whether the run has begun, or begins now, with the change called name. Runs that were beyond this place
// before the change get false. An invalid name, and a name that is used twice, hold the run.
func Patch(r *Run, name string) bool {
	x := r.stay
	if r.ended.Load() { // in a deferred function
		runtime.Goexit()
	}
	v := verb{name: r.branch + name, index: int(r.index.Load())}
	if err := workflow.ValidateStepName(v.name); err != nil {
		r.drifted(err)
	}
	if !x.knows(v.name) && x.beyond(r.branch, v.index) {
		return false
	}
	v, err := r.enter(name, workflow.KindPatch)
	if err != nil {
		r.drifted(err)
	}
	defer r.leave()
	if !v.known {
		r.held = append(r.held, workflow.Step{
			Name: v.name, Index: v.index, Kind: workflow.KindPatch, Outcome: workflow.Done, Output: []byte("true"),
		})
	}
	return true
}
