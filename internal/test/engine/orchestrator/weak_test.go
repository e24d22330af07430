package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The points of docs/decisions/0010 that no other test shows.

// cutOff runs a turn in a process. When die is called, another process takes the session. It is crash for stores that
// take their time.
func cutOff(t *testing.T, w world, d func(die func()) Def, in Input) {
	t.Helper()
	g := &grave{World: w}
	def := d(g.Die)
	bot := g.EndsOf("Append", "Save").Start(t, def, Options{})
	_, err := bot.Execute(t.Context(), "s", in, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	w.FreeUp(t, def.Name)
}

// Keep N leaves exactly the newest N turns, in the form in which the engine asks for them, on every store.
func TestKeepsExactly(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		for _, keep := range []int{1, 3, checkpoint.KeepAll} {
			d := echo()
			d.Name = fmt.Sprint("keeps ", keep)
			bot := w.Start(t, d, Options{KeepSnapshots: keep})
			var want []string
			for i := range 6 {
				text := strconv.Itoa(i)
				execute(t, bot, Input{Text: text})
				want = append(want, text)
				if got := turns(t, bot); !slices.Equal(got, want[max(0, len(want)-keep):]) {
					t.Fatalf("of %d turns %q are kept, want %d", i+1, got, keep)
				}
			}
		}
	})
}

// A session that crashes in the only dispatch of its first turn is found, and finished.
func TestCrashInFirstDispatch(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		cutOff(t, w, func(die func()) Def {
			d := echo()
			d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
			return d
		}, Input{Text: "a"})
		bot := w.Start(t, echo(), Options{})
		if got := recoverable(t, bot, true); !slices.Equal(got, []string{"s"}) {
			t.Fatalf("recoverable: %q", got)
		}
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
			t.Errorf("%q, %v", outcome, err)
		}
		wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", "b")
	})
}

// Two bots share stores and the names of their sessions, and each finds its own.
func TestBotsShareStores(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		bots := map[string]func(func()) Def{}
		for _, name := range []string{"support", "support.s", "sales"} {
			bots[name] = func(die func()) Def {
				d := steps(die)
				d.Name = name
				return d
			}
			cutOff(t, w, bots[name], Input{Text: name, RequestID: "r"})
		}
		ids := make(map[string]bool)
		for name, d := range bots {
			bot := w.Start(t, d(nil), Options{})
			wantRuns(t, bot, 1)
			res := execute(t, bot, Input{Text: name, RequestID: "r"})
			wantSaid(t, res.State, name+" one", name+" two", name+" three")
			ids[res.RunID] = true
		}
		if len(ids) != len(bots) {
			t.Errorf("%d run ids of %d runs", len(ids), len(bots))
		}
	})
}

// The error of a failed run can be read in its row, on every store.
func TestErrorIsStored(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		cutOff(t, w, steps, Input{Text: "a"})
		d := steps(nil)
		d.Intents["two"] = Intent{Next: orchestrator.End, Run: func(context.Context, *Turn) error {
			return fmt.Errorf("card …4242\x00: %w", errors.New("declined: \"insufficient funds\"\n"))
		}}
		bot := w.Start(t, d, Options{})
		if _, err := bot.Recover(t.Context(), "s"); err == nil {
			t.Fatal("no error")
		}
		run := wantRuns(t, bot, 1)[0]
		if !strings.Contains(run.Error, "declined: \"insufficient funds\"\n") || !strings.Contains(run.Error, "card") {
			t.Errorf("stored: %q", run.Error)
		}
	})
}

// Every store refuses the same states, with a definite error, and the session goes on.
func TestStateThatNoStoreTakes(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		d := echo()
		d.Begin = func(_ context.Context, t *Turn) error {
			if t.Input.Text == "at the start" {
				t.State.A = "\x00"
			}
			return nil
		}
		d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
			t.State.A = t.Input.Text
			if t.Input.Text == "at the end" {
				t.State.A = "\x00"
			}
			return nil
		}}
		bot := w.Start(t, d, Options{})
		for _, text := range []string{"at the start", "at the end"} {
			_, err := bot.Execute(t.Context(), "s", Input{Text: text}, nil)
			if !errors.Is(err, checkpoint.ErrInvalid) && !errors.Is(err, snapshot.ErrInvalid) ||
				errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Errorf("%s: %v", text, err)
			}
			wantRuns(t, bot, 0)
		}
		if res := execute(t, bot, Input{Text: "fine"}); res.Turn != 0 || res.State.A != "fine" {
			t.Errorf("%+v", res)
		}
	})
}

// However a turn ends, no run of it stays in flight, not even an ended one.
func TestNothingStaysInFlight(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		boom := errors.New("boom")
		var leave context.CancelFunc
		d := echo()
		d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
			switch {
			case t.Input.Text == "fails":
				return boom
			case t.Input.Text == "is left" && leave != nil:
				leave()
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		bot := w.Start(t, d, Options{})
		leftInFlight := func() {
			ctx, cancel := context.WithCancel(t.Context())
			leave = cancel
			_, err := bot.Execute(ctx, "s", Input{Text: "is left"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
			leave = nil
		}
		execute(t, bot, Input{Text: "settles"})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "fails"}, nil)
		wantErr(t, err, boom)
		leftInFlight()
		if res := execute(t, bot, Input{Text: "resumes it"}); res.Resumed == nil {
			t.Errorf("%+v", res)
		}
		leftInFlight()
		if err := abandon(t, bot, "s"); err != nil {
			t.Error(err)
		}
		for r, err := range w.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "echo"}}) {
			t.Errorf("%s is in flight, %s, %v", r.ID, r.Status, err)
		}
	})
}
