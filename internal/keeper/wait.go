package keeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
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

// Poll asks for a lock until the answer is not lock.ErrHeld. It pauses for at most most between two attempts.
func Poll(
	ctx context.Context, most time.Duration, try func() (context.Context, func(), error),
) (context.Context, func(), error) {
	for pause := (Backoff{Most: most}); ; {
		held, unlock, err := try()
		if !errors.Is(err, lock.ErrHeld) {
			return held, unlock, err
		}
		if err := Sleep(ctx, pause.Next()); err != nil {
			return nil, nil, err
		}
	}
}

// Reconnect calls connected until ctx ends, with pauses of at most most. If connected returns true, there was a
// connection, and the pauses begin anew.
func Reconnect(ctx context.Context, most time.Duration, connected func() bool) {
	for pause := (Backoff{Most: most}); ctx.Err() == nil; _ = Sleep(ctx, pause.Next()) {
		if connected() {
			pause.last = 0
		}
	}
}

// Releasing returns a context for a release, which may begin after the end of ctx. If the release takes longer, the
// thing ends with its TTL.
func Releasing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}
