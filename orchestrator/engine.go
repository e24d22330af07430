package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An engine is what of an orchestrator needs no S.
type engine struct {
	Options   // with defaults filled in
	name      string
	owner     string // unique per process start
	signature string
	version   string
	store     checkpoint.Store
	joined    snapshot.Settle // appends a turn and deletes its run at once; nil: the stores cannot
	queues    queue.Keyed     // of the callers in this process, before anything is asked of a server
	stretches stretches       // how long sessions have been used without a gap
	leases    leases
	work      work
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

// persist makes a call to a store that may be repeated until it is answered, for as long as Limits.SettleTimeout, whatever
// becomes of ctx. doubt says that a call before the last one may have taken effect.
func (e *engine) persist(ctx context.Context, call func(context.Context) error) (doubt bool, err error) {
	each := e.Limits.SettleTimeout / 3
	ctx = context.WithoutCancel(ctx)
	try := deadline.In(ctx, each, nil)
	err = call(try)
	try.Cancel()
	if err == nil || answered(err) {
		return false, err
	}
	first, _ := try.Deadline()
	return e.repeat(ctx, first.Add(2*each), !refused(err), call)
}

// repeat makes a call that went unanswered, or was refused, again and again, for as long as there is time.
func (e *engine) repeat(
	ctx context.Context, until time.Time, unanswered bool, call func(context.Context) error,
) (doubt bool, err error) {
	pauses := keeper.Backoff{Most: e.Limits.SettleTimeout / 20}
	for doubt = unanswered; ; doubt = doubt || !refused(err) {
		time.Sleep(pauses.Next())
		try, cancel := context.WithTimeout(ctx, min(e.Limits.SettleTimeout/3, time.Until(until)))
		err = call(try)
		cancel()
		if err == nil || answered(err) || time.Until(until) <= pauses.Most {
			return doubt, err
		}
	}
}

// once makes a call that is not repeated, whatever becomes of ctx.
func (e *engine) once(ctx context.Context, call func(context.Context) error) error {
	try := deadline.In(context.WithoutCancel(ctx), e.Limits.SettleTimeout, nil)
	defer try.Cancel()
	return call(try)
}

// answered reports whether err is what a store says of a call that changed nothing.
func answered(err error) bool {
	for _, verdict := range []error{
		lock.ErrFenced, lock.ErrHeld, checkpoint.ErrConflict, checkpoint.ErrInvalid, checkpoint.ErrSchema, checkpoint.ErrNotFound,
		checkpoint.ErrDamaged, snapshot.ErrNotFound, snapshot.ErrParked, snapshot.ErrInvalid, snapshot.ErrSchema,
		snapshot.ErrDamaged,
	} {
		if errors.Is(err, verdict) {
			return true
		}
	}
	return false
}

// refused reports whether err is what a store says of a call that its server did not take, and may take later.
func refused(err error) bool {
	return errors.Is(err, checkpoint.ErrRefused) || errors.Is(err, snapshot.ErrRefused)
}

// definite reports whether a call that failed with err has changed nothing.
func definite(err error) bool { return answered(err) || refused(err) }

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
