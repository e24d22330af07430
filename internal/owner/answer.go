package owner

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/store"
)

// Persist makes a call to a store that may be repeated. It repeats the call until the store answers, for as long as
// SettleTimeout, even if ctx ends. doubt says that a call before the last one may have taken effect.
func (p *Process) Persist(ctx context.Context, call func(context.Context) error) (doubt bool, err error) {
	each := p.options.SettleTimeout / 3
	ctx = context.WithoutCancel(ctx)
	try := deadline.In(ctx, each, nil)
	err = call(try)
	try.Cancel()
	if err == nil || Answered(err) {
		return false, err
	}
	first, _ := try.Deadline()
	return p.repeat(ctx, first.Add(2*each), !Refused(err), call)
}

// repeat makes a call again that went unanswered or was refused, as often as there is time.
func (p *Process) repeat(
	ctx context.Context, until time.Time, unanswered bool, call func(context.Context) error,
) (doubt bool, err error) {
	pauses := keeper.Backoff{Most: p.options.SettleTimeout / 20}
	for doubt = unanswered; ; doubt = doubt || !Refused(err) {
		time.Sleep(pauses.Next())
		try, cancel := context.WithTimeout(ctx, min(p.options.SettleTimeout/3, time.Until(until)))
		err = call(try)
		cancel()
		if err == nil || Answered(err) || time.Until(until) <= pauses.Most {
			return doubt, err
		}
	}
}

// Once makes a call that is not repeated. The call goes on if ctx ends.
func (p *Process) Once(ctx context.Context, call func(context.Context) error) error {
	try := deadline.In(context.WithoutCancel(ctx), p.options.SettleTimeout, nil)
	defer try.Cancel()
	return call(try)
}

// Answered reports whether err is a store's verdict on a call that changed nothing.
func Answered(err error) bool { return store.IsVerdict(err) }

// Refused reports whether err says that a server did not take a call, and may take it later.
func Refused(err error) bool { return errors.Is(err, store.ErrRefused) }

// away reports whether err says that a server takes no call now. A right that is missing does not come by waiting.
func away(err error) bool { return Refused(err) && !denied(err) }

// noPrivilege is PostgreSQL's SQLSTATE for a right that the role lacks.
const noPrivilege = "42501"

func denied(err error) bool {
	type stater interface {
		error
		SQLState() string
	}
	e, ok := errors.AsType[stater](err)
	return ok && e.SQLState() == noPrivilege
}

// Definite reports whether a call that failed with err has changed nothing.
func Definite(err error) bool { return Answered(err) || Refused(err) }
