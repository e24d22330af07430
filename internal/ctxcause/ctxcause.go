// Package ctxcause says why a context ended, in one way for all stores.
package ctxcause

import (
	"context"
	"errors"
	"fmt"
)

// Of returns nil while ctx lasts. Then it returns an error that is both the error of ctx.Err and the cause of the end.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
