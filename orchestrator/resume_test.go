package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A turn goes on after its last saved iteration, with its decisions, usage and progress so far.
func TestResume(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	bot := w.Start(t, steps(nil), Options{})
	runs := wantRuns(t, bot, 1)
	res, err := bot.Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "a one", "a two", "a three")
	if res.RunID != runs[0].ID || res.Usage.Input != 3 || len(res.Steps) != 3 || res.Input.Text != "a" {
		t.Errorf("%+v", res)
	}
	wantRuns(t, bot, 0)
	_, err = bot.Resume(t.Context(), "s", nil)
	wantErr(t, err, orchestrator.ErrNothingToResume)
}

// The next input finishes the run that it finds, as a turn of its own, and begins on the newer state.
func TestResumeFirst(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	bot := w.Start(t, steps(nil), Options{})
	res := execute(t, bot, Input{Text: "b"})
	wantSaid(t, res.State, "a one", "a two", "a three", "b one", "b two", "b three")
	if res.Turn != 1 || res.Input.Text != "b" || res.Resumed == nil || res.Resumed.Turn != 0 ||
		res.Resumed.Input.Text != "a" {
		t.Errorf("%+v", res)
	}
	if got := turns(t, bot); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("turns %q", got)
	}
}

// The same request id finishes its own run, under every OnInterrupted.
func TestOwnRun(t *testing.T) {
	for _, policy := range []orchestrator.OnInterrupted{
		orchestrator.ResumeFirst, orchestrator.Reject,
		orchestrator.AbandonFirst,
	} {
		w := newWorld()
		in := Input{RequestID: "r", Text: "a", Data: json.RawMessage(`{"n": 1}`)}
		w.Crash(t, steps, in)
		bot := w.Start(t, steps(nil), Options{OnInterrupted: policy})
		runs := wantRuns(t, bot, 1)
		res := execute(t, bot, Input{RequestID: "r", Text: "a", Data: json.RawMessage(`{"n":1}`)})
		wantSaid(t, res.State, "a one", "a two", "a three")
		if res.RunID != runs[0].ID || res.Resumed != nil || res.Replayed {
			t.Errorf("%+v", res)
		}
		again := execute(t, bot, in)
		if !again.Replayed || again.RunID != res.RunID || len(again.Steps) != 3 || again.Usage != res.Usage {
			t.Errorf("%+v", again)
		}
		_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "b"}, nil)
		wantErr(t, err, orchestrator.ErrRequestReused)
	}
}

func TestRequestReusedInFlight(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{RequestID: "r", Text: "a"})
	bot := w.Start(t, steps(nil), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "b"}, nil)
	wantErr(t, err, orchestrator.ErrRequestReused)
	wantRuns(t, bot, 1)
}

func TestReject(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	bot := w.Start(t, steps(nil), Options{OnInterrupted: orchestrator.Reject})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
	wantErr(t, err, orchestrator.ErrInterrupted)
	wantRuns(t, bot, 1)
}

func TestAbandonFirst(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	bot := w.Start(t, steps(nil), Options{OnInterrupted: orchestrator.AbandonFirst})
	res := execute(t, bot, Input{Text: "b"})
	wantSaid(t, res.State, "b one", "b two", "b three")
	if res.Turn != 0 || res.Resumed != nil {
		t.Errorf("%+v", res)
	}
}

// If the found run fails, the failure ends only that run.
func TestResumedFails(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	boom := errors.New("boom")
	d := steps(nil)
	three := d.Intents["three"].Run
	d.Intents["three"] = Intent{Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
		if t.Input.Text == "a" {
			return boom
		}
		return three(ctx, t)
	}}
	bot := w.Start(t, d, Options{})
	res := execute(t, bot, Input{Text: "b"})
	wantSaid(t, res.State, "b one", "b two", "b three")
	wantErr(t, res.ResumeErr, boom)
	if res.Turn != 0 || res.Resumed != nil {
		t.Errorf("%+v", res)
	}
}

// Finished branches of a fan-out do not run again, and the engine does not ask again for decisions.
func TestFanOutResumed(t *testing.T) {
	var quick, slow, routed atomic.Int32
	fan := func(die func()) Def {
		done := make(chan struct{})
		return Def{Name: "fan", Intents: Intents{
			"quick": {Run: func(_ context.Context, t *Turn) error {
				defer close(done)
				quick.Add(1)
				t.State.A = "quick"
				return nil
			}},
			"slow": {Run: func(ctx context.Context, t *Turn) error {
				slow.Add(1)
				if die == nil {
					t.State.B = "slow"
					return nil
				}
				<-done
				if err := branchSaved(ctx, t); err != nil {
					return err
				}
				die()
				return nil
			}},
		}, Route: func(context.Context, *Turn) (Next, error) {
			routed.Add(1)
			return orchestrator.To("quick", "slow"), nil
		}}
	}
	w := newWorld()
	watched = w.Snapshots
	w.Crash(t, fan, Input{})
	res, err := w.Start(t, fan(nil), Options{}).Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.State.A != "quick" || res.State.B != "slow" || quick.Load() != 1 || slow.Load() != 2 || routed.Load() != 1 {
		t.Errorf("state %+v, quick ran %d times, slow %d, route %d", res.State, quick.Load(), slow.Load(),
			routed.Load())
	}
}

// watched is the store that branchSaved looks into.
var watched snapshot.Store

func branchSaved(ctx context.Context, t *Turn) error {
	for {
		for r, err := range watched.Runs(ctx,
			snapshot.Query{Key: snapshot.Key{Orchestrator: "fan", Session: t.Session}}) {
			if err == nil && r.Seq > 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// The end of the caller's context is not an undo: the run waits for the next caller, and the attempt does not count.
func TestContextEnds(t *testing.T) {
	w := newWorld()
	d := steps(nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the browser is gone")
	two := d.Intents["two"]
	d.Intents["two"] = Intent{Next: two.Next, Run: func(ctx context.Context, t *Turn) error {
		cancel(gone)
		<-ctx.Done()
		return ctx.Err()
	}}
	events := new(diary)
	bot := w.Start(t, d, Options{})
	_, err := bot.Execute(ctx, "s", Input{Text: "a", RequestID: "r"}, &orchestrator.CallOptions{OnEvent: events.Note})
	wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled, gone)
	if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Waiting || run.Attempt != 0 {
		t.Errorf("left as %s, attempt %d", run.Status, run.Attempt)
	}
	if got := events.Kinds(); !strings.HasSuffix(got, "turn.left") {
		t.Error(got)
	}
	wantSaid(t, execute(t, w.Start(t, steps(nil), Options{}), Input{Text: "a", RequestID: "r"}).State, "a one", "a two",
		"a three")
}

// Without a snapshot store, a turn that was cut off leaves no trace.
func TestContextEndsWithoutSnapshots(t *testing.T) {
	w := newWorld()
	w.Snapshots = nil
	ctx, cancel := context.WithCancel(t.Context())
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	_, err := w.Start(t, d, Options{}).Execute(ctx, "s", Input{}, nil)
	wantErr(t, err, context.Canceled)
	if errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Error(err)
	}
	execute(t, w.Start(t, echo(), Options{}), Input{Text: "b"})
}

// A run fails again and again, without a caller. It waits longer each time and is parked in the end.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Crash(t, steps, Input{Text: "a"})
		d := steps(nil)
		boom := errors.New("boom")
		d.Intents["two"] = Intent{Next: orchestrator.End, Run: func(context.Context, *Turn) error { return boom }}
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{Attempts: 3}})
		for attempt := 1; attempt <= 3; attempt++ {
			_, err := bot.Recover(t.Context(), "s")
			wantErr(t, err, boom)
			run := wantRuns(t, bot, 1)[0]
			if run.Status != snapshot.Waiting || run.Attempt != attempt || !strings.Contains(run.Error, "boom") ||
				!run.NotBefore.After(time.Now()) {
				t.Errorf("attempt %d left %+v", attempt, run)
			}
			if outcome, err := bot.Recover(t.Context(), "s"); outcome != "held" || err != nil {
				t.Errorf("before it is due: %q, %v", outcome, err)
			}
			if n := len(recoverable(t, bot, true)); n != 0 {
				t.Errorf("%d are recoverable before they are due", n)
			}
			time.Sleep(time.Until(run.NotBefore))
		}
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "parked" || err != nil {
			t.Errorf("%q, %v", outcome, err)
		}
		_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
		wantErr(t, err, orchestrator.ErrParked)
		_, err = bot.Resume(t.Context(), "s", nil)
		wantErr(t, err, orchestrator.ErrParked)
		res, err := w.Start(t, steps(nil), Options{}).Resume(t.Context(), "s", &orchestrator.CallOptions{Force: true})
		if err != nil || len(res.Steps) != 3 {
			t.Errorf("forced: %v, %v", res, err)
		}
	})
}

func TestRecover(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, steps(nil), Options{})
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
		t.Errorf("nothing: %q, %v", outcome, err)
	}
	w.Crash(t, steps, Input{Text: "a"})
	if got := recoverable(t, bot, false); len(got) != 0 {
		t.Errorf("a run that may be alive is recoverable: %q", got)
	}
	if got := recoverable(t, bot, true); !slices.Equal(got, []string{"s"}) {
		t.Errorf("recoverable: %q", got)
	}
	k := checkpoint.Key{Orchestrator: "steps", Session: "s"}
	c, err := w.Checkpoints.Claim(t.Context(), k, checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "held" || err != nil {
		t.Errorf("owned: %q, %v", outcome, err)
	}
	if err := w.Checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true}); err != nil {
		t.Fatal(err)
	}
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("left: %q, %v", outcome, err)
	}
	if got := turns(t, bot); !slices.Equal(got, []string{"a"}) {
		t.Errorf("turns %q", got)
	}
}

// A newer owner has settled a run. The run is found afterwards. It is deleted and never runs again.
func TestFinishedRun(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, echo(), Options{})
	execute(t, bot, Input{Text: "a"})
	res := execute(t, bot, Input{Text: "b"})
	execute(t, bot, Input{Text: "c"})
	last, err := checkpoint.Load(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: "echo", Session: "s"},
		checkpoint.Newest)
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Appendf(nil, `{"v":1,"born":7,"signature":%q,"input":{},"state":{}}`, last.Signature)
	for name, run := range map[string]snapshot.Run{
		"settled":         {ID: res.RunID, Turn: 1, Status: snapshot.Running},
		"ended":           {ID: "over", Turn: 3, Status: snapshot.Ended},
		"of another life": {ID: "old", Turn: 3, Status: snapshot.Running, Payload: old},
	} {
		run.Key, run.Attempt = snapshot.Key{Orchestrator: "echo", Session: "s"}, 1
		begin := func() {
			// The fence is newer than the last claim, and older than the next.
			run.Fence = lock.Fence{Epoch: time.Now().UnixMicro(), Nonce: "n"}
			if found, err := w.Snapshots.Begin(t.Context(), run); found != nil || err != nil {
				t.Fatal(found, err)
			}
		}
		begin()
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
			t.Errorf("%s: %q, %v", name, outcome, err)
		}
		begin()
		_, err := bot.Resume(t.Context(), "s", nil)
		wantErr(t, err, orchestrator.ErrNothingToResume)
		begin()
		if res := execute(t, bot, Input{Text: name}); res.Resumed != nil || res.ResumeErr != nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
	if got := turns(t, bot); len(got) != 6 {
		t.Errorf("turns %q", got)
	}
}
