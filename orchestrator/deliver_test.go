package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A failing hook fails no turn; what it missed is handed over by the next call, the oldest first. (Weak point 28.)
func TestDeliver(t *testing.T) {
	w := newWorld()
	var got []string
	down := errors.New("down")
	hook := func(fail *error) Def {
		d := echo()
		d.Deliver = func(_ context.Context, r *Result) error {
			if *fail == nil {
				got = append(got, fmt.Sprint(r.Turn, " ", r.Input.Text, " ", r.State.Said[len(r.State.Said)-1]))
			}
			return *fail
		}
		return d
	}
	fail := down
	bot := w.start(t, hook(&fail), Options{KeepSnapshots: 1})
	execute(t, bot, Input{Text: "a"})
	execute(t, bot, Input{Text: "b"})
	if sessions := recoverable(t, bot, false); !slices.Equal(sessions, []string{"s"}) {
		t.Errorf("owing: %q", sessions)
	}
	if _, err := bot.Recover(t.Context(), "s"); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	if outcome, err := w.start(t, echo(), Options{}).Recover(t.Context(), "s"); outcome != "foreign" || err != nil {
		t.Errorf("without the hook: %q, %v", outcome, err)
	}
	fail = nil
	execute(t, bot, Input{Text: "c"})
	if want := []string{"0 a a", "1 b b", "2 c c"}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
	if sessions := recoverable(t, bot, false); len(sessions) != 0 {
		t.Errorf("still owing: %q", sessions)
	}
}

func TestRecoverDelivers(t *testing.T) {
	w := newWorld()
	fail := errors.New("down")
	d := echo()
	d.Deliver = func(context.Context, *Result) error { return fail }
	bot := w.start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	fail = nil
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "delivered" || err != nil {
		t.Errorf("%q, %v", outcome, err)
	}
}

// What the hook does to its Result is not what the caller gets, and what the caller does is not stored. (Weak point 21.)
func TestResultIsOwn(t *testing.T) {
	w := newWorld()
	d := echo()
	d.Deliver = func(_ context.Context, r *Result) error { r.State.Said[0] = "spoiled"; return nil }
	bot := w.start(t, d, Options{})
	res := execute(t, bot, Input{Text: "a", RequestID: "r"})
	wantSaid(t, res.State, "a")
	res.State.Said[0] = "spoiled"
	wantSaid(t, execute(t, bot, Input{Text: "a", RequestID: "r"}).State, "a")
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", "b")
}

// A hook that calls for its own session is told so.
func TestDeliverReentrant(t *testing.T) {
	var bot *Bot
	var got error
	d := echo()
	d.Deliver = func(ctx context.Context, r *Result) error {
		_, got = bot.Execute(ctx, r.Session, Input{Text: "b"}, nil)
		return nil
	}
	bot = newWorld().start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	wantErr(t, got, orchestrator.ErrReentrant)
}
