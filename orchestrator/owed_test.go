package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// How often a delivery is tried.

// A counter is a hook that fails for some inputs, and counts its calls.
type counter struct {
	fails []string
	calls int
}

func (c *counter) definition() Def {
	d := echo()
	d.Deliver = func(_ context.Context, r *Result) error {
		c.calls++
		if slices.Contains(c.fails, r.Input.Text) {
			return errors.New("down")
		}
		return nil
	}
	return d
}

// A delivery that is parked is not listed any more.
func TestParkedDeliveryIsNotDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := counter{fails: []string{"a"}}
		bot := newWorld().Start(t, hook.definition(), attempts(2))
		execute(t, bot, Input{Text: "a"})
		time.Sleep(time.Minute)
		_, _ = bot.Recover(t.Context(), "s")
		if hook.calls != 2 {
			t.Fatalf("tried %d times", hook.calls)
		}
		time.Sleep(24 * time.Hour)
		if got := recoverable(t, bot, true); len(got) != 0 {
			t.Errorf("recoverable: %q", got)
		}
	})
}

// A drain does not try a delivery that has failed Limits.Attempts times, also if the limit was lowered since.
func TestParkedDeliveryIsNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := counter{fails: []string{"a"}}
		w := newWorld()
		bot := w.Start(t, hook.definition(), attempts(5))
		execute(t, bot, Input{Text: "a"})
		time.Sleep(time.Minute)
		_, _ = bot.Recover(t.Context(), "s")
		time.Sleep(time.Minute)
		lowered := w.Start(t, hook.definition(), attempts(2))
		if outcome, err := lowered.Recover(t.Context(), "s"); outcome != "parked" || err != nil {
			t.Errorf("%q, %v", outcome, err)
		}
		if got := recoverable(t, lowered, true); hook.calls != 2 || len(got) != 0 {
			t.Errorf("tried %d times, recoverable: %q", hook.calls, got)
		}
	})
}

// The failures of one delivery are not counted for the next.
func TestFailuresOfOneDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := counter{fails: []string{"a"}}
		bot := newWorld().Start(t, hook.definition(), attempts(2))
		execute(t, bot, Input{Text: "a"})
		hook.fails = []string{"b"}
		// The call delivers the first reply. Then it fails for the first time with the second.
		execute(t, bot, Input{Text: "b"})
		time.Sleep(time.Minute)
		if got := recoverable(t, bot, false); !slices.Equal(got, []string{"s"}) {
			t.Errorf("recoverable: %q", got)
		}
	})
}
