package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// What has become of an input is known by its request id at each point of its way, whoever asks, and after a crash too.
func TestProgress(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		s := new(inbox.Memory)
		goes := make(chan struct{})
		d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
			switch t.Input.Text {
			case "held":
				<-goes
			case "fails":
				return errors.New("secret")
			}
			return say(t.Input.Text)(ctx, t)
		}}}}
		opts := Options{Inbox: s, Limits: orchestrator.Limits{Attempts: 1}, KeepSnapshots: 2}
		bot, other := w.Start(t, d, opts), w.Start(t, d, opts)
		progress := func(id string) string {
			p, err := other.Progress(t.Context(), "s", id)
			switch {
			case errors.Is(err, checkpoint.ErrNotFound):
				return "unknown"
			case err != nil:
				t.Error(err)
			case p.Status == orchestrator.InputSettled && p.Result.Input.RequestID == id:
				return "settled"
			case p.Status == orchestrator.InputFailed:
				return p.Problem.Type
			}
			return string(p.Status)
		}
		want := func(all ...string) {
			t.Helper()
			for i, id := range []string{"held", "fails", "good", "now"} {
				if got := progress(id); got != all[i] {
					t.Errorf("%s is %s, want %s", id, got, all[i])
				}
			}
		}
		enqueue(t, bot, "held", "fails", "good")
		want("waiting", "waiting", "waiting", "unknown")
		done := make(chan struct{})
		go func() {
			defer close(done)
			recoverAll(t, bot)
		}()
		for progress("held") == "waiting" {
			runtime.Gosched()
		}
		want("running", "waiting", "waiting", "unknown")
		close(goes)
		<-done
		want("settled", "bot-failed", "settled", "unknown")
		enqueue(t, bot, "good") // it has settled, and waits until the next look
		want("settled", "bot-failed", "settled", "unknown")
		execute(t, bot, Input{RequestID: "now", Text: "now"})
		want("unknown", "bot-failed", "settled", "settled") // turn 0 is pruned
		wantTurns(t, bot, "good", "now")
		for _, id := range []string{"", "\xff"} {
			if _, err := bot.Progress(t.Context(), "s", id); orchestrator.Public(err).Status != 422 {
				t.Errorf("%q: %v", id, err)
			}
		}
		if err := bot.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		want("unknown", "unknown", "unknown", "unknown")
	})
}

// Two processes accept, run and execute at once: each input settles once, and what one caller sends stays in its order.
func TestEnqueueRace(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		s := new(inbox.Memory) // the suite of inboxes says that the others are alike
		bots := []*Bot{w.Start(t, echo(), Options{Inbox: s}), w.Start(t, echo(), Options{Inbox: s})}
		const n = 6
		var all sync.WaitGroup
		for i, bot := range bots {
			all.Go(func() {
				for j := range n {
					enqueue(t, bot, fmt.Sprint("q", i, j))
				}
			})
			all.Go(func() {
				for range n {
					recoverAll(t, bot)
				}
			})
			all.Go(func() {
				in := Input{RequestID: fmt.Sprint("x", i), Text: "x"}
				if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		execute(t, bots[0], Input{Text: "last"})
		got := turns(t, bots[0])
		if len(got) != 2*n+3 || got[len(got)-1] != "last" {
			t.Errorf("%d turns: %q", len(got), got)
		}
		for i := range bots {
			mine := slices.DeleteFunc(slices.Clone(got), func(text string) bool {
				return !strings.HasPrefix(text, fmt.Sprint("q", i))
			})
			if !slices.IsSorted(mine) || len(mine) != n {
				t.Errorf("of caller %d: %q", i, mine)
			}
		}
	})
}
