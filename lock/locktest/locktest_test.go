package locktest_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
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
	trial := suite.Trial[lock.Locker]{Violations: locktest.Violations, Blocking: []string{"give-up"}}
	for name, c := range map[string]struct {
		clause string
		broken func() lock.Locker
	}{
		"grants everybody": {"try", func() lock.Locker { return everybody{} }},
		"one key":          {"keys", func() lock.Locker { return new(oneKey) }},
		"deaf to ctx":      {"give-up", func() lock.Locker { return new(deaf) }},
		"ctx of its own":   {"held", func() lock.Locker { return new(orphan) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, c.broken)
		})
	}
}

func TestSuiteAccepts(t *testing.T) {
	for name, err := range locktest.Violations(t.Context(), func() lock.Locker { return new(lock.Memory) }) {
		t.Errorf("%s: %v", name, err)
	}
}
