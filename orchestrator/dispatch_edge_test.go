package orchestrator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// two is a bot whose turns run two intents at once.
func two(a, b func(context.Context, *Turn) error) Def {
	return Def{
		Name: "two", Intents: Intents{"a": {Run: a}, "b": {Run: b}},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
	}
}

// A Merge that fails ends the turn with its error. The session stays as it was, and takes the next input.
func TestMergeFails(t *testing.T) {
	down := errors.New("two answers do not agree")
	d := two(say("a"), say("b"))
	fails := true
	d.Merge = func(base State, branches []State) (State, error) {
		if fails {
			return branches[0], down
		}
		return branches[1], nil
	}
	bot := newWorld().Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
	wantErr(t, err, down)
	wantOp(t, err, "merge")
	fails = false
	wantSaid(t, execute(t, bot, Input{Text: "y"}).State, "b")
}

// A turn whose time is up while an intent waits for its next attempt says so, and why it waited.
func TestTimeIsUpBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("vendor is down")
		attempts := 0
		d := Def{Name: "n", Intents: Intents{"a": {
			Retry: retry.Policy{Attempts: 3, Wait: func(int) time.Duration { return time.Hour }},
			Run:   func(context.Context, *Turn) error { attempts++; return down },
		}}}
		bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{TurnTimeout: time.Minute}})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
		wantErr(t, err, orchestrator.ErrTurnTimeout, down)
		if attempts != 1 || err == nil || !strings.Contains(err.Error(), "before another attempt after") {
			t.Errorf("after %d attempts: %v", attempts, err)
		}
	})
}

// A branch whose state is too large fails by itself: the error names its intent, and not the merge.
func TestBranchTooLarge(t *testing.T) {
	d := two(say("a"), func(_ context.Context, t *Turn) error {
		t.State.A = strings.Repeat("x", 5000)
		return nil
	})
	bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{State: 4096}})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
	if e := details(t, err); e.Intent != "b" {
		t.Errorf("got %v, want an error of b", err)
	}
	if e, ok := errors.AsType[*orchestrator.StateError](err); !ok || e.Limit != 4096 {
		t.Errorf("got %v, want a StateError", err)
	}
}
