// Package ctxcause says why a context ended, in the one way that all stores do.
package ctxcause

import (
	"context"
	"errors"
	"fmt"
)

// Of returns nil while ctx lasts; then an error that is both what ctx.Err returns and the cause that its canceller gave.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
