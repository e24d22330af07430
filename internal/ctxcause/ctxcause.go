// Package ctxcause says why a context ended, in one way for all stores.
package ctxcause

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// Cause is context.Cause with a cause that is safe to ask. A caller's own cause may be any error, such as a nil pointer
// whose methods panic.
func Cause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // no cause was given
		return cause
	}
	return logtext.Shield(cause)
}

// Of returns nil while ctx lasts. Then it returns an error that is both the error of ctx.Err and the cause of the end.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Add adds to err why ctx ended, unless err says that already. Without this, err may tell only of a broken connection.
func Add(ctx context.Context, err error) error {
	end := ctx.Err()
	if err == nil || end == nil || errors.Is(err, end) && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", Of(ctx), err)
}
