package tiny

import "context"

// Soon has a number whose type this file cannot name.
func Soon(ctx context.Context) (context.Context, func()) {
	return context.WithTimeout(ctx, 3)
}
