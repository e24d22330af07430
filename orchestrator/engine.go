package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/snapshot"
)

// engine is the part of an Orchestrator that does not depend on S.
type engine struct {
	Options   // with defaults filled in
	name      string
	process   string // unique for each start of a process
	signature string
	version   string
	store     checkpoint.Store

	// joined appends a turn and deletes its run in one transaction; nil if the stores cannot.
	joined   snapshot.Settle
	sessions *owner.Process // the sessions that this process owns
	handlers handlers
	slow     slow
	meters   meters
	runners  sync.Pool // of *runner

	// stuck counts the functions that were given up and have not returned.
	stuck atomic.Int64
}

func (e *engine) key(session string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: e.name, Session: session}
}

func (e *engine) logger() *slog.Logger { return e.Logger }

// why is the attribute of a log line for err.
func (e *engine) why(err error) slog.Attr { return slog.String("err", e.LogError(err)) }

// run runs a function of the bot. The function may panic, or go on after ctx has ended. If it goes on, run waits for
// Limits.SettleTimeout, gives the function up, and returns errStuck.
func (e *engine) run(ctx context.Context, fn func(context.Context) error) error {
	r, _ := e.runners.Get().(*runner)
	if r == nil {
		r = &runner{done: make(chan error, 1)}
	}
	r.over.Store(false)
	go e.serve(ctx, r, fn)
	select {
	case err := <-r.done:
		e.runners.Put(r)
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(e.Limits.SettleTimeout)
	defer patience.Stop()
	select {
	case err := <-r.done:
		return err
	case <-patience.C:
	}
	if e.giveUp(ctx, &r.over) {
		return errStuck
	}
	return <-r.done
}

// A runner tells when a function has returned. After that it serves another function, unless the first was given up.
type runner struct {
	done chan error
	over atomic.Bool // see giveUp
}

func (e *engine) serve(ctx context.Context, r *runner, fn func(context.Context) error) {
	err := errGoexit
	defer func() {
		e.returned(&r.over)
		r.done <- err
	}()
	err = logtext.Private(outside(protect(func() error { return fn(ctx) })))
}

// mostStuck bounds the functions that were given up. Each keeps its goroutine and everything that it refers to, which
// is mostly a state.
const mostStuck = 1000

// giveUp counts a function that goes on although its context has ended. It reports whether the function had not
// returned. The first of giveUp and returned sets over.
func (e *engine) giveUp(ctx context.Context, over *atomic.Bool) bool {
	if !over.CompareAndSwap(false, true) {
		return false
	}
	e.meters.given(1)
	e.Logger.ErrorContext(ctx, "function given up: it ignores the end of its context",
		"session", owner.ScopeIn(ctx).Session(), "stuck", e.stuck.Add(1))
	return true
}

// returned notes that a function has returned, given up or not.
func (e *engine) returned(over *atomic.Bool) {
	if !over.CompareAndSwap(false, true) {
		e.stuck.Add(-1)
		e.meters.given(-1)
	}
}

// full refuses to run more functions of the bot while too many do not return.
func (e *engine) full() error {
	if n := e.stuck.Load(); n >= mostStuck {
		return fmt.Errorf("%w: %d in this process", ErrTooManyStuck, n)
	}
	return nil
}

// protect turns a panic into an error.
func protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return fn()
}

// ofOneRow reports whether err says that one session, run or turn is damaged. A listing goes on after such an error.
func ofOneRow(err error) bool {
	if _, ok := errors.AsType[*checkpoint.DamagedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*snapshot.DamagedError](err)
	return ok
}

// invalid reports whether err says that a store will never take a value.
func invalid(err error) bool {
	return errors.Is(err, checkpoint.ErrInvalid) || errors.Is(err, snapshot.ErrInvalid)
}
