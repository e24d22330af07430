package locktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// Each of these stores breaks a promise about the watcher.
func TestWatchConvicts(t *testing.T) {
	type ask struct {
		orchestrator, definition, process string
		d                                 time.Duration
	}
	for name, c := range map[string]struct {
		clause string
		asked  func(a *ask) // spoils the question
		told   func(asked ask, other time.Duration) time.Duration
	}{
		"all are the watcher":               {"watcher", nil, func(ask, time.Duration) time.Duration { return 0 }},
		"nobody is told for how long":       {"watcher", nil, func(_ ask, other time.Duration) time.Duration { return min(other, 1) }},
		"the time is never shorter":         {"watcher", func(a *ask) { a.d = max(a.d, 30*time.Minute) }, nil},
		"the watcher cannot ask again":      {"watcher", func(a *ask) { a.process += time.Now().String() }, nil},
		"the watcher stays":                 {"watcher-over", func(a *ask) { a.d *= 1000 }, nil},
		"the watcher ends too early":        {"watcher-over", func(a *ask) { a.d /= 2 }, nil},
		"the watcher cannot leave":          {"watcher-leaves", func(a *ask) { a.d = max(a.d, time.Minute) }, nil},
		"anybody makes it leave":            {"watcher-leaves", nil, func(a ask, other time.Duration) time.Duration { return min(other, a.d) }},
		"definitions share a watcher":       {"watcher-apart", func(a *ask) { a.definition = "v" }, nil},
		"orchestrators share a watcher":     {"watcher-apart", func(a *ask) { a.orchestrator = "o" }, nil},
		"names run into each other":         {"watcher-apart", func(a *ask) { a.orchestrator, a.definition = a.orchestrator+"/"+a.definition, "v" }, nil},
		"at once all are":                   {"watcher-race", nil, func(ask, time.Duration) time.Duration { return 0 }},
		"a name that no store takes is one": {"watcher-invalid", func(a *ask) { a.process = "p" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := func() lock.Watcher {
				m := new(lock.Processes)
				return watching(func(
					ctx context.Context, orchestrator, definition, process string, d time.Duration,
				) (time.Duration, error) {
					asked := ask{orchestrator, definition, process, d}
					a := asked
					if c.asked != nil {
						c.asked(&a)
					}
					other, err := m.Watch(ctx, a.orchestrator, a.definition, a.process, a.d)
					if c.told != nil {
						other = c.told(asked, other)
					}
					return other, err
				})
			}
			suite.Trial[lock.Watcher]{Violations: locktest.WatchViolations}.
				Convict(t, c.clause, broken)
		})
	}
}

type watching func(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (time.Duration, error)

func (w watching) Watch(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (time.Duration, error) {
	return w(ctx, orchestrator, definition, process, d)
}
