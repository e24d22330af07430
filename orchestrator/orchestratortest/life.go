package orchestratortest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/retry"
)

// A life is shared by the functions and the stores of a process: whether it lives, and what is to happen to it.
type life struct {
	// over ends when the process dies.
	over context.Context //nolint:containedctx // it is the life of a process
	end  context.CancelCauseFunc

	mu     sync.Mutex // protects following fields
	steps  map[string]bool
	deaths []*death
	faults []*fault
	ran    []string
	leases []checkpoint.Lease

	// newest is the time of the newest entry of the turn log.
	newest time.Time

	// cut is open while the process is cut off from its stores; nil: it is not.
	cut chan struct{}
}

// A death comes before or after the nth time of a step.
type death struct {
	step   string
	n      int
	before bool
}

func newLife() *life {
	l := &life{steps: make(map[string]bool)}
	l.over, l.end = context.WithCancelCause(context.Background())
	for _, name := range calls {
		l.steps[name] = true
	}
	return l
}

func (l *life) kill() { l.end(ErrDied) }

func (l *life) isDead() bool { return l.over.Err() != nil }

// known panics if there is no such step.
func (l *life) known(step string) {
	base, _, _ := strings.Cut(step, " item ")
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.steps[step] && !l.steps[base] {
		panic(fmt.Sprintf("orchestratortest: no step %q; the package comment says which there are", step))
	}
}

func (l *life) plan(step string, n int, before bool) {
	l.known(step)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaths = append(l.deaths, &death{step, n, before})
}

// pass kills the process if it is to die here. It reports whether the process is dead.
func (l *life) pass(step string, before bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.deaths {
		if d.before != before || d.step != step && !strings.HasPrefix(step, d.step+" item ") {
			continue
		}
		if d.n--; d.n == 0 {
			l.end(ErrDied)
		}
	}
	return l.over.Err() != nil
}

// function runs a function of the bot as a step.
func (l *life) function(ctx context.Context, step string, f func(context.Context) error) error {
	if l.pass(step, true) {
		return retry.Permanent(ErrDied)
	}
	l.mu.Lock()
	l.ran = append(l.ran, step)
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(l.over, func() { cancel(ErrDied) })
	defer stop()
	err := f(ctx)
	if l.pass(step, false) {
		return retry.Permanent(ErrDied)
	}
	return err
}

func (l *life) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ran)
}

// claimed notes a lease of the process.
func (l *life) claimed(lease checkpoint.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := slices.DeleteFunc(l.leases, func(old checkpoint.Lease) bool { return old.Key == lease.Key })
	l.leases = append(others, lease)
}

// recorded notes the time of an entry of the turn log.
func (l *life) recorded(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.newest) {
		l.newest = at
	}
}

// passed waits until the clock has passed the entries of the turn log. Entries that came faster than one a millisecond
// are ahead of it, and a lease that ends by itself ends seconds later.
func (l *life) passed() {
	l.mu.Lock()
	ahead := time.Until(l.newest)
	l.mu.Unlock()
	time.Sleep(ahead)
}

func (l *life) takeLeases() []checkpoint.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.leases
	l.leases = nil
	return all
}

// A fault changes some calls of a store.
type fault struct {
	call string

	// times is how many calls are changed; 0 means all.
	times int
	kind  faultKind
	takes time.Duration
}

type faultKind int

const (
	fails faultKind = iota
	loses
	slows
)

// next returns the fault of a call; nil: none.
func (l *life) next(call string) *fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.faults {
		if f.call != "" && f.call != call {
			continue
		}
		if f.times > 0 {
			if f.times--; f.times == 0 {
				l.faults = slices.Delete(l.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

func (l *life) add(f *fault) {
	if f.call != "" {
		l.known(f.call)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}
