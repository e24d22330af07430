package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An engine is what of an orchestrator needs no S.
type engine struct {
	Options   // with defaults filled in
	name      string
	process   string // unique for each start of one
	signature string
	version   string
	store     checkpoint.Store
	joined    snapshot.Settle // appends a turn and deletes its run at once; nil: the stores cannot
	sessions  *owner.Process  // those that this process owns
	handlers  handlers
	slow      slow
	meters    meters
	runners   sync.Pool // of *runner
}

func (e *engine) key(session string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: e.name, Session: session}
}

func (e *engine) logger() *slog.Logger { return e.Logger }

// run runs a function of the bot, which may panic, or go on after ctx has ended: then it is waited for, and at last given
// up with errStuck.
func (e *engine) run(ctx context.Context, fn func(context.Context) error) error {
	r, _ := e.runners.Get().(*runner)
	if r == nil {
		r = &runner{done: make(chan error, 1)}
	}
	go r.run(ctx, fn)
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
		return errStuck
	}
}

// A runner is what tells that a function has returned. It serves another one then, unless it was given up.
type runner struct{ done chan error }

func (r *runner) run(ctx context.Context, fn func(context.Context) error) {
	err := errGoexit
	defer func() { r.done <- outside(err) }()
	err = protect(func() error { return fn(ctx) })
}

// protect makes an error of a panic.
func protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return fn()
}

// ofOneRow reports whether a store says of one session, run or turn that it is damaged: a listing goes on after it.
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
