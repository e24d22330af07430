package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
)

var (
	errLate  = errors.New("late")
	errOuter = errors.New("outer")
)

type key struct{}

// As long as a caller waits for a Context, it always behaves like a context of the standard library. A caller that
// comes late cannot know which of two reasons was the first.
func TestLikeTheStandard(t *testing.T) {
	tests := []struct {
		name   string
		twice  bool          // it has two reasons to end
		outer  time.Duration // when the parent ends; 0: never
		events func(cancel, cancelOuter func())
	}{
		{"lasts", false, 0, func(_, _ func()) { time.Sleep(59 * time.Second) }},
		{"time is up", false, 0, func(_, _ func()) { time.Sleep(time.Minute) }},
		{"cancelled", false, 0, func(cancel, _ func()) { cancel() }},
		{"cancelled twice", false, 0, func(cancel, _ func()) { cancel(); cancel() }},
		{"cancelled, and time is up", true, 0, func(cancel, _ func()) { cancel(); time.Sleep(time.Hour) }},
		{"time is up, and cancelled", true, 0, func(cancel, _ func()) { time.Sleep(time.Hour); cancel() }},
		{"parent ends", false, 0, func(_, cancelOuter func()) { cancelOuter() }},
		{"parent ends after it", true, 0, func(_, cancelOuter func()) { time.Sleep(time.Hour); cancelOuter() }},
		{"parent is short", false, time.Second, func(_, _ func()) { time.Sleep(time.Hour) }},
		{"parent is long", true, time.Hour, func(_, _ func()) { time.Sleep(2 * time.Hour) }},
	}
	for _, test := range tests {
		for _, waited := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					outer, cancelOuter := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					defer cancelOuter(nil)
					if test.outer > 0 {
						var cancel context.CancelFunc
						outer, cancel = context.WithTimeout(outer, test.outer)
						defer cancel()
					}
					want, cancel := context.WithTimeoutCause(outer, time.Minute, errLate)
					defer cancel()
					got := deadline.In(outer, time.Minute, errLate)
					defer got.Cancel()
					if waited {
						select {
						case <-got.Done():
							t.Fatal("over before it began")
						default:
						}
					}
					test.events(func() { cancel(); got.Cancel() }, func() { cancelOuter(errOuter) })
					synctest.Wait()
					if waited || !test.twice {
						compare(t, got, want)
					} else if got.Err() == nil {
						t.Error("not over")
					}
				})
			})
		}
	}
}

func compare(t *testing.T, got, want context.Context) {
	t.Helper()
	gotAt, _ := got.Deadline()
	if wantAt, _ := want.Deadline(); !gotAt.Equal(wantAt) {
		t.Errorf("deadline %v, want %v", gotAt, wantAt)
	}
	if got.Err() != want.Err() { //nolint:errorlint // it is to be the very same
		t.Errorf("err %v, want %v", got.Err(), want.Err())
	}
	gotCause, wantCause := context.Cause(got), context.Cause(want)
	if gotCause != wantCause { //nolint:errorlint // as above
		t.Errorf("cause %v, want %v", gotCause, wantCause)
	}
	if got.Value(key{}) != "value" {
		t.Error("lost a value of its parent")
	}
	select {
	case <-got.Done():
		if want.Err() == nil {
			t.Error("done")
		}
	default:
		if want.Err() != nil {
			t.Error("not done")
		}
	}
}

// A child ends with the Context, for the same reason, and costs no goroutine.
func TestChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := bubble.Goroutines(t)
		ctx := deadline.In(t.Context(), time.Minute, errLate)
		defer ctx.Cancel()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		called := false
		context.AfterFunc(ctx, func() { called = true })
		if more := bubble.Goroutines(t) - before; more > 0 {
			t.Errorf("%d goroutines", more)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !errors.Is(child.Err(), context.Canceled) && !errors.Is(child.Err(), context.DeadlineExceeded) ||
			!errors.Is(context.Cause(child), errLate) {
			t.Errorf("child: %v, %v", child.Err(), context.Cause(child))
		}
		if !called {
			t.Error("its AfterFunc was not called")
		}
	})
}

// If no caller waits, there is nothing to stop.
func TestCost(t *testing.T) {
	got := testing.AllocsPerRun(100, func() {
		ctx := deadline.In(t.Context(), time.Minute, nil)
		if ctx.Err() != nil {
			t.Error(ctx.Err())
		}
		ctx.Cancel()
	})
	if got > 1 {
		t.Errorf("%v allocations", got)
	}
}
