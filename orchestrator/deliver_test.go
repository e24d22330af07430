package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A failing hook fails no turn. The next call delivers the missed replies, the oldest first. Drains wait before they
// try.
func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		bot := w.Start(t, hook(&fail), Options{KeepSnapshots: 1})
		execute(t, bot, Input{Text: "a"})
		execute(t, bot, Input{Text: "b"})
		if sessions := recoverable(t, bot, false); len(sessions) != 0 {
			t.Errorf("due at once: %q", sessions)
		}
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "held" || err != nil {
			t.Errorf("before it is due: %q, %v", outcome, err)
		}
		time.Sleep(time.Minute)
		if sessions := recoverable(t, bot, false); !slices.Equal(sessions, []string{"s"}) {
			t.Errorf("owing: %q", sessions)
		}
		if outcome, err := w.Start(t, echo(), Options{}).Recover(t.Context(), "s"); outcome != "foreign" || err != nil {
			t.Errorf("without the hook: %q, %v", outcome, err)
		}
		if _, err := bot.Recover(t.Context(), "s"); !errors.Is(err, down) {
			t.Errorf("got %v", err)
		}
		fail = nil
		execute(t, bot, Input{Text: "c"})
		if want := []string{"0 a a", "1 b b", "2 c c"}; !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
		if sessions := recoverable(t, bot, true); len(sessions) != 0 {
			t.Errorf("still owing: %q", sessions)
		}
	})
}

// If a delivery cannot be noted, the turn has settled all the same, and nothing more is delivered in its call. The next
// call delivers the reply once more.
func TestDeliveryNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, away := newWorld(), false
		w.Checkpoints = faulttest.Checkpoints(w.Checkpoints, faulttest.On(func(
			ctx context.Context, _ faulttest.Call, next func(context.Context) error,
		) error {
			if away {
				return checkpoint.ErrRefused
			}
			return next(ctx)
		}, "Mark"))
		var got []int
		var logs bytes.Buffer
		d := echo()
		d.Deliver = func(_ context.Context, r *Result) error {
			got = append(got, r.Turn)
			return nil
		}
		bot := w.Start(t, d, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		away = true
		execute(t, bot, Input{Text: "a"})
		execute(t, bot, Input{Text: "b"})
		if text := logs.String(); !strings.Contains(text, `"delivery not noted; it is repeated" orchestrator=echo session=s turn=0`) {
			t.Errorf("logs:\n%s", text)
		}
		if want := []int{0, 0}; !slices.Equal(got, want) {
			t.Errorf("delivered %v, want %v", got, want)
		}
		away = false
		execute(t, bot, Input{Text: "c"})
		if want := []int{0, 0, 0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("delivered %v, want %v", got, want)
		}
	})
}

func TestRecoverDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		fail := errors.New("down")
		d := echo()
		d.Deliver = func(context.Context, *Result) error { return fail }
		bot := w.Start(t, d, Options{})
		execute(t, bot, Input{Text: "a"})
		fail = nil
		time.Sleep(time.Minute)
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "delivered" || err != nil {
			t.Errorf("%q, %v", outcome, err)
		}
	})
}

// A reply that can never be delivered is tried less and less often, then parked: drains leave it, and callers still
// try. SkipDelivery gives the reply up, and the replies behind it are delivered.
func TestPoisonDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var calls, got []string
		d := echo()
		d.Deliver = func(_ context.Context, r *Result) error {
			calls = append(calls, r.Input.Text)
			if r.Input.Text == "poison" {
				return errors.New("no such channel")
			}
			got = append(got, r.Input.Text)
			return nil
		}
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{Attempts: 4}})
		poison := execute(t, bot, Input{Text: "poison"})
		for range 3600 { // two processes look each second
			for range 2 {
				for session, err := range bot.Recoverable(t.Context(), false) {
					if err != nil {
						t.Fatal(err)
					}
					_, _ = bot.Recover(t.Context(), session)
				}
			}
			time.Sleep(time.Second)
		}
		if len(calls) != 4 {
			t.Errorf("tried %d times in an hour", len(calls))
		}
		execute(t, bot, Input{Text: "next"})
		if len(calls) != 5 || len(got) != 0 {
			t.Errorf("a caller's turn tries %d times, delivered %q", len(calls)-4, got)
		}
		if skipped, err := bot.SkipDelivery(t.Context(), "s", "another run"); skipped || err != nil {
			t.Errorf("skipped %t, %v", skipped, err)
		}
		if skipped, err := bot.SkipDelivery(t.Context(), "s", poison.RunID); !skipped || err != nil {
			t.Errorf("skipped %t, %v", skipped, err)
		}
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "delivered" || err != nil ||
			!slices.Equal(got, []string{"next"}) {
			t.Errorf("%q, %v; delivered %q", outcome, err, got)
		}
		if skipped, err := bot.SkipDelivery(t.Context(), "s", poison.RunID); skipped || err != nil {
			t.Errorf("nothing is owed: skipped %t, %v", skipped, err)
		}
	})
}

// If the hook changes its Result, the caller's Result does not change. If the caller changes its Result, the stored one
// does not change.
func TestResultIsOwn(t *testing.T) {
	w := newWorld()
	d := echo()
	d.Deliver = func(_ context.Context, r *Result) error { r.State.Said[0] = "spoiled"; return nil }
	bot := w.Start(t, d, Options{})
	res := execute(t, bot, Input{Text: "a", RequestID: "r"})
	wantSaid(t, res.State, "a")
	res.State.Said[0] = "spoiled"
	wantSaid(t, execute(t, bot, Input{Text: "a", RequestID: "r"}).State, "a")
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", "b")
}

// A hook that calls for its own session gets an error.
func TestDeliverReentrant(t *testing.T) {
	var bot *Bot
	var got error
	d := echo()
	d.Deliver = func(ctx context.Context, r *Result) error {
		_, got = bot.Execute(ctx, r.Session, Input{Text: "b"}, nil)
		return nil
	}
	bot = newWorld().Start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	wantErr(t, got, orchestrator.ErrReentrant)
}
