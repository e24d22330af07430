package keeper

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// A Backoff makes the pauses of one waiter. A Backoff with only Most set is ready for use.
type Backoff struct {
	Most time.Duration // the longest pause
	last time.Duration
}

const firstPause = 5 * time.Millisecond

// Next returns a pause with full jitter: any time up to a bound that doubles. So waiters that came together do not ask
// together.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, firstPause), b.Most)
	return rand.N(b.last) + 1
}

// Sleep pauses for d. If ctx ends before that, Sleep returns its cause at once.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctxcause.Cause(ctx)
	}
}

// Linger returns a context that outlives ctx by grace, for a request that may be granted. If its sender gave the
// request up, the request might still arrive, after the release that was to undo it. Then the grant would go unowned.
func Linger(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}
