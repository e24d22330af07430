package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
)

// functions runs the functions of the bot. A function may panic. A function that goes on after its context has ended is
// given up.
type functions struct {
	log    *slog.Logger
	meters *meters

	// patience is how long a function may ignore the end of its context: Limits.SettleTimeout.
	patience time.Duration
	runners  sync.Pool // of *runner

	// stuck counts the functions that were given up and have not returned.
	stuck atomic.Int64
}

// run runs a function of the bot. If the function goes on after ctx has ended, run waits for the patience, gives the
// function up, and returns errStuck.
func (f *functions) run(ctx context.Context, fn func(context.Context) error) error {
	r, _ := f.runners.Get().(*runner)
	if r == nil {
		r = &runner{done: make(chan error, 1)}
	}
	r.over.Store(false)
	go f.serve(ctx, r, fn)
	select {
	case err := <-r.done:
		f.runners.Put(r)
		return timedOut(ctx, err)
	case <-ctx.Done():
	}
	late := time.NewTimer(f.patience)
	defer late.Stop()
	select {
	case err := <-r.done:
		return timedOut(ctx, err)
	case <-late.C:
	}
	if f.giveUp(ctx, &r.over) {
		return timedOut(ctx, errStuck)
	}
	return timedOut(ctx, <-r.done)
}

// A runner tells when a function has returned. After that it serves another function, unless the first was given up.
type runner struct {
	done chan error
	over atomic.Bool // see giveUp
}

func (f *functions) serve(ctx context.Context, r *runner, fn func(context.Context) error) {
	err := errGoexit
	defer func() {
		f.returned(&r.over)
		r.done <- err
	}()
	err = foreign(f.protect(ctx, func() error { return fn(ctx) })) // here, where its methods may hang, panic or end
}

// pause returns the pause that a retry policy says. The policy has no context: it gets the patience to answer.
func (f *functions) pause(ctx context.Context, policy func() time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	said := make(chan time.Duration, 1)
	failed := make(chan error, 1)
	over := new(atomic.Bool)
	go func() {
		err := errGoexit
		defer func() {
			f.returned(over)
			failed <- err
		}()
		err = logtext.Private(f.protect(ctx, func() error { said <- policy(); return nil }))
	}()
	select {
	case err := <-failed:
		if err != nil {
			return 0, fmt.Errorf("Retry.Wait: %w", err)
		}
		return <-said, nil
	case <-ctx.Done():
		f.giveUp(ctx, over)
		return 0, fmt.Errorf("Retry.Wait has not returned: %w", ctxcause.Of(ctx))
	}
}

// mostStuck bounds the functions that were given up. Each keeps its goroutine and everything that it refers to, which
// is mostly a state.
const mostStuck = 1000

// giveUp counts a function that goes on although its context has ended. It reports whether the function had not
// returned. The first of giveUp and returned sets over.
func (f *functions) giveUp(ctx context.Context, over *atomic.Bool) bool {
	if !over.CompareAndSwap(false, true) {
		return false
	}
	f.meters.given(1)
	f.log.ErrorContext(ctx, "function given up: it ignores the end of its context",
		"session", owner.ScopeIn(ctx).Session(), "run", owner.ScopeIn(ctx).Run(), "stuck", f.stuck.Add(1))
	return true
}

// returned notes that a function has returned, given up or not.
func (f *functions) returned(over *atomic.Bool) {
	if !over.CompareAndSwap(false, true) {
		f.stuck.Add(-1)
		f.meters.given(-1)
	}
}

// full refuses to run more functions of the bot while too many do not return.
func (f *functions) full() error {
	if n := f.stuck.Load(); n >= mostStuck {
		return fmt.Errorf("%w: %d in this process", ErrTooManyStuck, n)
	}
	return nil
}

// protect turns a panic of a function of the bot into an error. It logs the stack, which holds no values. A panic that
// goes on after it was caught is logged once.
func (f *functions) protect(ctx context.Context, fn func() error) error {
	err := protect(fn)
	p, ok := err.(*PanicError)
	if !ok || p == nil {
		return err
	}
	if inner, ok := errors.AsType[*PanicError](p.Unwrap()); ok {
		p.Stack = inner.Stack
		return err
	}
	f.tell(ctx, "function panicked", p)
	return err
}

// tell logs a panic.
func (f *functions) tell(ctx context.Context, what string, p *PanicError) {
	scope := owner.ScopeIn(ctx)
	f.log.ErrorContext(ctx, what, "session", scope.Session(), "run", scope.Run(),
		"type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack))
}
