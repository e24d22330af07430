package orchestrator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// later lets the time pass after which a session that has settled nothing is retired, and returns how many were.
func later(t *testing.T, bot *Bot) (retired int) {
	t.Helper()
	time.Sleep(checkpoint.DefaultUnsettled + time.Hour)
	retired, err := bot.Sweep(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return retired
}

// A stranger who makes up names of sessions leaves nothing, unless a run with a request id has begun: its repeat is the
// same run for a week.
func TestStrangersLeaveNothing(t *testing.T) {
	for name, test := range map[string]struct {
		def     Def
		request string
		store   func(snapshot.Store) snapshot.Store
		left    int
	}{
		"refused by Begin":             {def: refusesInput()},
		"refused by Begin, with an id": {def: refusesInput(), request: "r"},
		"refused by the store": {def: echo(), store: func(s snapshot.Store) snapshot.Store {
			return faulttest.Snapshots(s, faulttest.Fail(snapshot.ErrInvalid, "Begin"))
		}},
		"failed":                              {def: failsTurns()},
		"failed, with an id":                  {def: failsTurns(), request: "r", left: strangers},
		"failed, without snapshots":           {def: failsTurns(), store: func(snapshot.Store) snapshot.Store { return nil }},
		"failed, without snapshots, with id":  {def: failsTurns(), request: "r", store: func(snapshot.Store) snapshot.Store { return nil }, left: strangers},
		"refused by Begin, without snapshots": {def: refusesInput(), store: func(snapshot.Store) snapshot.Store { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if test.store != nil {
					w.Snapshots = test.store(w.Snapshots)
				}
				bot := w.Start(t, test.def, Options{})
				for i := range strangers {
					in := Input{Text: "hello", RequestID: test.request}
					if _, err := bot.Execute(t.Context(), fmt.Sprint("stranger ", i), in, nil); err == nil {
						t.Fatal("the input is taken")
					}
				}
				time.Sleep(time.Hour)
				if n, err := w.Checkpoints.(checkpoint.Sweeper).Sweep(t.Context(), 0); n != 0 || err != nil {
					t.Errorf("retired %d after an hour, %v", n, err)
				}
				time.Sleep(checkpoint.DefaultUnsettled)
				if n, err := w.Checkpoints.(checkpoint.Sweeper).Sweep(t.Context(), 0); n != test.left || err != nil {
					t.Errorf("%d sessions were left, want %d; %v", n, test.left, err)
				}
			})
		})
	}
}

// A process that is killed between the first claim and Begin leaves a session that the sweep retires.
func TestKilledBeforeBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.Start(t, echo(), Options{})
		var old []checkpoint.Lease
		for i := range strangers {
			k := checkpoint.Key{Orchestrator: bot.Name(), Session: fmt.Sprint("stranger ", i)}
			c, err := w.Checkpoints.Claim(t.Context(), k, checkpoint.ClaimRequest{Nonce: "killed", TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, c.Lease)
		}
		if n := later(t, bot); n != strangers {
			t.Errorf("retired %d, want %d", n, strangers)
		}
		for _, l := range old {
			cp := checkpoint.Checkpoint{RunID: "late", State: []byte(`{}`)}
			wantErr(t, w.Checkpoints.Append(t.Context(), l, cp, checkpoint.AppendOptions{}), lock.ErrFenced)
		}
	})
}

// left leaves the first turn of session s in flight.
func left(t *testing.T, w world, d Def, in Input) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	_, err := w.Start(t, d, Options{}).Execute(ctx, "s", in, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
}

// A first turn that is in flight outlives its session's head. Any process may go on with it. It settles once, under its
// id, and its repeat is answered.
func TestRunOutlivesItsHead(t *testing.T) {
	in := Input{Text: "first", RequestID: "r"}
	for name, test := range map[string]struct {
		leave func(t *testing.T, w world)
		next  func(t *testing.T, bot *Bot) *Result
	}{
		"repeat": {next: func(t *testing.T, bot *Bot) *Result { return execute(t, bot, in) }},
		"resume": {next: func(t *testing.T, bot *Bot) *Result {
			res, err := bot.Resume(t.Context(), "s", nil)
			wantErr(t, err, nil)
			return res
		}},
		"another input": {next: func(t *testing.T, bot *Bot) *Result {
			return execute(t, bot, Input{Text: "second"}).Resumed
		}},
		"drain": {next: func(t *testing.T, bot *Bot) *Result {
			if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
				t.Fatal(outcome, err)
			}
			return execute(t, bot, in)
		}},
		"crash": {
			leave: func(t *testing.T, w world) {
				w.Crash(t, func(die func()) Def {
					d := echo()
					d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
					return d
				}, in)
			},
			next: func(t *testing.T, bot *Bot) *Result { return execute(t, bot, in) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if test.leave == nil {
					left(t, w, echo(), in)
				} else {
					test.leave(t, w)
				}
				bot := w.Start(t, echo(), Options{})
				run := wantRuns(t, bot, 1)[0].ID
				if n := later(t, bot); n != 1 {
					t.Fatalf("retired %d sessions, want 1", n)
				}
				res := test.next(t, bot)
				if res == nil || res.RunID != run {
					t.Fatalf("settled %+v, want run %s", res, run)
				}
				again := execute(t, bot, in)
				if !again.Replayed || again.RunID != run {
					t.Errorf("the repeat is %+v, want the turn of run %s", again, run)
				}
				wantRuns(t, bot, 0)
				if got := turns(t, bot); got[0] != "first" {
					t.Errorf("turns %q", got)
				}
			})
		})
	}
}

// Abandon and Delete find a first turn whose session was retired.
func TestEndAfterItsHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.Start(t, echo(), Options{})
		left(t, w, echo(), Input{Text: "first", RequestID: "r"})
		later(t, bot)
		run := wantRuns(t, bot, 1)[0].ID
		if ended, err := bot.Abandon(t.Context(), "s", run); !ended || err != nil {
			t.Error(ended, err)
		}
		wantRuns(t, bot, 0)
		left(t, w, echo(), Input{Text: "second", RequestID: "q"})
		later(t, bot)
		wantErr(t, bot.Delete(t.Context(), "s"), nil)
		wantRuns(t, bot, 0)
		execute(t, bot, Input{Text: "third"})
		if got := turns(t, bot); len(got) != 1 || got[0] != "third" {
			t.Errorf("turns %q", got)
		}
	})
}

// An input that failed, and comes again with its request id, is the same run: its effects are not repeated.
func TestFailedFirstTurnKeepsItsRun(t *testing.T) {
	w := newWorld()
	var ids []string
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, turn *Turn) error {
		if ids = append(ids, turn.RunID); len(ids) == 1 {
			return errRefusedInput
		}
		return nil
	}}
	bot := w.Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
	wantErr(t, err, errRefusedInput)
	execute(t, bot, Input{Text: "a", RequestID: "r"})
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("runs %q, want the same one twice", ids)
	}
}

// unheard asks the store, and its answer never comes.
func unheard(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
	_ = next(ctx)
	return errLost
}

// A first turn that may have settled is never taken back.
func TestUnheardFirstTurnStays(t *testing.T) {
	w := newWorld()
	o := Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}}
	for _, snapshots := range []snapshot.Store{w.Snapshots, nil} {
		w := worldOf(faulttest.Checkpoints(new(checkpoint.Memory), faulttest.On(unheard, "Append")), snapshots)
		bot := w.Start(t, echo(), o)
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		if got := turns(t, bot); len(got) != 1 {
			t.Errorf("turns %q after an Append whose answer was lost", got)
		}
	}
}
