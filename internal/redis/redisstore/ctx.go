package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Checked returns the first reason to stop: an error of the arguments, or the end of ctx.
func Checked(ctx context.Context, errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctxcause.Of(ctx)
}

// Wrap says in an error what was to be done, and to what: a session, an orchestrator. It is for defer.
func Wrap(err *error, op, what string) {
	if *err != nil {
		*err = fmt.Errorf("redis: %s %q: %w", op, what, *err)
	}
}

// interrupted adds to err that ctx is done. A client that honours the deadline of ctx reports an i/o timeout, perhaps
// before the timer of ctx has fired.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctxcause.Add(ctx, err)
	}
	deadline, ok := ctx.Deadline()
	if ok && !time.Now().Before(deadline) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}
