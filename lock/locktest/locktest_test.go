package locktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// everybody grants each key to every caller.
type everybody struct{}

func (everybody) Lock(ctx context.Context, _ string) (context.Context, func(), error) {
	held, cancel := context.WithCancel(ctx)
	return held, cancel, nil
}

func (e everybody) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	return e.Lock(ctx, key)
}

// oneKey treats all keys as one.
type oneKey struct{ lock.Memory }

func (o *oneKey) TryLock(ctx context.Context, _ string) (context.Context, func(), error) {
	return o.Memory.TryLock(ctx, "")
}

// deaf goes on waiting after ctx has ended.
type deaf struct{ lock.Memory }

func (d *deaf) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	return d.Memory.Lock(context.WithoutCancel(ctx), key)
}

// orphan gives its owners a context that does not derive from theirs.
type orphan struct{ lock.Memory }

func (o *orphan) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	_, unlock, err := o.Memory.Lock(ctx, key)
	return context.Background(), unlock, err
}

func TestSuiteConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		broken func() lock.Locker
		clause string
	}{
		"grants everybody": {func() lock.Locker { return everybody{} }, "try"},
		"one key":          {func() lock.Locker { return new(oneKey) }, "keys"},
		"deaf to ctx":      {func() lock.Locker { return new(deaf) }, "give-up"},
		"ctx of its own":   {func() lock.Locker { return new(orphan) }, "held"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A locker that waits for ever is convicted when ctx ends.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if locktest.Violation(ctx, c.broken(), c.clause) == nil {
				t.Errorf("clause %s accepts it", c.clause)
			}
		})
	}
}
