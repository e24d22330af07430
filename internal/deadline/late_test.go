package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// A Late ends some time after its parent, with the parent's cause, and so do its children.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		late := deadline.After(parent, time.Second)
		defer late.Cancel()
		child, cancel := context.WithCancel(late)
		defer cancel()
		began := time.Now()
		end(errOuter)
		if late.Err() != nil || child.Err() != nil || late.Value(key{}) != "value" || child.Value(key{}) != "value" {
			t.Errorf("at the end of the parent: %v, %v", late.Err(), child.Err())
		}
		<-child.Done()
		if took := time.Since(began); took != time.Second || !errors.Is(context.Cause(child), errOuter) ||
			!errors.Is(late.Err(), context.Canceled) || !errors.Is(context.Cause(late), errOuter) {
			t.Errorf("after %v: %v, cause %v", took, late.Err(), context.Cause(late))
		}
	})
}

// The deadline is that of the parent, and some time more.
func TestLateDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := deadline.After(t.Context(), time.Second)
		if _, some := late.Deadline(); some {
			t.Error("it has a deadline, and its parent has none")
		}
		late.Cancel()
		parent, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		late = deadline.After(parent, time.Second)
		defer late.Cancel()
		began := time.Now()
		at, _ := late.Deadline()
		<-late.Done()
		if took := time.Since(began); took != time.Minute+time.Second || at.Sub(began) != took {
			t.Errorf("it ended after %v, and its deadline is %v", took, at.Sub(began))
		}
	})
}

// Cancel ends a Late at once, also while it waits after the end of its parent, and leaves nothing behind.
func TestLateCancel(t *testing.T) {
	for name, begin := range map[string]func(*deadline.Late, func()){
		"before anyone waits":        func(*deadline.Late, func()) {},
		"while the parent lasts":     func(l *deadline.Late, _ func()) { l.Done() },
		"while it outlasts":          func(l *deadline.Late, end func()) { l.Done(); end(); synctest.Wait() },
		"after the parent's end":     func(_ *deadline.Late, end func()) { end() },
		"by a caller who had waited": func(l *deadline.Late, end func()) { end(); l.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancel(t.Context())
				defer end()
				late := deadline.After(parent, time.Hour)
				began := time.Now()
				begin(late, end)
				late.Cancel()
				<-late.Done()
				if late.Err() == nil || time.Since(began) > 0 {
					t.Errorf("after %v: %v", time.Since(began), late.Err())
				}
			})
		})
	}
}
