// Package retention says when a store that no index serves is swept.
package retention

import (
	"context"
	"sync"
	"time"
)

// Every is how often a store is swept that has to be walked from end to end.
const Every = time.Hour

// A Retention is how long a store keeps what is over. The zero Retention keeps all.
type Retention struct {
	// Age is for how long. 0 or less means for ever.
	Age time.Duration

	// Turn reports whether this process is the one to sweep, of those that share a database. nil: each is.
	Turn func(ctx context.Context) (bool, error)

	mu   sync.Mutex // protects following field
	last time.Time
}

// Sweep calls prune with the time before which all is to go. With a limit, as a watch has it once a minute, it does so
// once in Every. prune walks the whole store, and heeds no limit.
func (r *Retention) Sweep(
	ctx context.Context, limit int, prune func(context.Context, time.Time) (int, error),
) (retired int, err error) {
	if r.Age <= 0 {
		return 0, nil
	}
	if limit > 0 {
		due, err := r.due(ctx)
		if !due || err != nil {
			return 0, err
		}
	}
	return prune(ctx, time.Now().Add(-r.Age))
}

func (r *Retention) due(ctx context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last.IsZero() && time.Since(r.last) < Every {
		return false, nil
	}
	if r.Turn != nil {
		if ours, err := r.Turn(ctx); !ours || err != nil {
			return false, err
		}
	}
	r.last = time.Now()
	return true, nil
}
