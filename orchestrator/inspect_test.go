package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run whose process died has no owner. Inspect says how far it was saved, and that the next attempt has begun.
func TestInspectCrashed(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	bot := w.Start(t, steps(nil), Options{})
	st := inspect(t, bot)
	wantStanding(t, st, orchestrator.Standing{Turn: -1})
	if st.Run == nil || st.Run.Status != snapshot.Running || st.Run.Iteration != 1 || st.Run.Turn != 0 {
		t.Errorf("after a crash: %+v", st.Run)
	}
	if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if st = inspect(t, bot); st.Run != nil || st.Turn != 0 {
		t.Errorf("after the resume: %+v", st)
	}
}

func TestInspectOwed(t *testing.T) {
	w := newWorld()
	d := echo()
	d.Deliver = func(context.Context, *Result) error { return errors.New("mail server is down") }
	bot := w.Start(t, d, Options{KeepSnapshots: 1})
	for _, owed := range []int{1, 2, 3} {
		execute(t, bot, Input{Text: "x"})
		wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: owed - 1, Owed: owed})
	}
}

// A suspended run names the effects that it waits for.
func TestInspectSuspended(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
	d := theDoubt(t, err, true)
	r := inspect(t, bot).Run
	if r == nil || r.Status != snapshot.Suspended || r.ID != d.RunID || !slices.Equal(r.Effects, d.Effects) {
		t.Errorf("suspended: %+v, want effects %q", r, d.Effects)
	}
}

// A run that is only to be deleted is not in flight.
func TestInspectFinished(t *testing.T) {
	for _, text := range []string{"settles", "fails"} {
		w := newWorld()
		w.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.Fail(errors.New("away"), "Delete"))
		bot := w.Start(t, single(func(_ context.Context, t *Turn) error {
			if t.Input.Text == "fails" {
				return errors.New("no")
			}
			return nil
		}), Options{Limits: orchestrator.Limits{SettleTimeout: 10 * time.Millisecond}})
		if _, err := bot.Execute(t.Context(), "s", Input{Text: text}, nil); (err != nil) != (text == "fails") {
			t.Fatal(err)
		}
		left := 0
		q := snapshot.Query{Key: snapshot.Key{Orchestrator: "shop"}}
		for _, err := range w.Snapshots.Runs(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			left++
		}
		if st := inspect(t, bot); st.Run != nil || left != 1 {
			t.Errorf("%s: of %d runs left %+v is in flight", text, left, st.Run)
		}
	}
}

// A store that is no Inspector still says which turn is the newest.
func TestInspectPlain(t *testing.T) {
	w := newWorld()
	plain := world{Checkpoints: struct{ checkpoint.Store }{w.Checkpoints}}
	bot := plain.Start(t, echo(), Options{})
	wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: -1})
	execute(t, bot, Input{Text: "x"})
	execute(t, bot, Input{Text: "y"})
	wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: 1})
}

// What is damaged, or of a later version, comes as an error. The rest is told.
func TestInspectDamaged(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, steps(nil), Options{})
	execute(t, bot, Input{Text: "x"})
	w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
	run := wantRuns(t, bot, 1)[0]
	headless := worldOf(headless{w.Checkpoints}, w.Snapshots).Start(t, steps(nil), Options{})
	st, err := headless.Inspect(t.Context(), "s")
	wantErr(t, err, checkpoint.ErrDamaged)
	if st.Turn != -1 || st.Run == nil || st.Run.ID != run.ID || st.Run.Iteration != 1 {
		t.Errorf("with a damaged head: %+v", st)
	}

	for payload, want := range map[string]error{`{"v":1}`: snapshot.ErrDamaged, `{"v":99}`: nil} {
		run.Seq++
		run.Payload = []byte(payload)
		if err := w.Snapshots.Save(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		st, err := bot.Inspect(t.Context(), "s")
		if want != nil {
			wantErr(t, err, want)
		} else if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok {
			t.Errorf("of a later version: %v", err)
		}
		wantOp(t, err, "inspect")
		if st.Turn != 0 || st.Run == nil || st.Run.ID != run.ID || st.Run.RequestID != "r" || st.Run.Iteration != 0 {
			t.Errorf("with payload %s: %+v, %+v", payload, st, st.Run)
		}
	}
	_, err = headless.Inspect(t.Context(), "s")
	wantErr(t, err, checkpoint.ErrDamaged)
}

// A headless store finds each head damaged.
type headless struct{ checkpoint.Store }

func (s headless) Head(_ context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	return checkpoint.Head{}, checkpoint.Damaged(k, checkpoint.ErrNoHead)
}

// Inspect asks each store once, and none for anything that it might write.
func TestInspectReads(t *testing.T) {
	w := newWorld()
	d, started := hanging()
	bot := w.Start(t, d, Options{})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := bot.Execute(ctx, "s", Input{Text: "slow"}, nil)
		done <- err
	}()
	<-started
	var seen []string
	count := func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		seen = append(seen, c.Method)
		return next(ctx)
	}
	seer := worldOf(faulttest.Checkpoints(w.Checkpoints, count), faulttest.Snapshots(w.Snapshots, count))
	inspect(t, seer.Start(t, d, Options{}))
	if want := []string{"Runs", "Head", "Beat"}; !slices.Equal(seen, want) {
		t.Errorf("calls %q, want %q", seen, want)
	}
	leave()
	wantErr(t, <-done, orchestrator.ErrIndeterminate)
}

// Beats are for economy. If they cannot be read, the rest is told.
func TestInspectRefused(t *testing.T) {
	w := newWorld()
	away := func(method string) *Bot {
		return world{
			Checkpoints: faulttest.Checkpoints(w.Checkpoints, faulttest.Fail(checkpoint.ErrRefused, method)),
			Snapshots:   faulttest.Snapshots(w.Snapshots, faulttest.Fail(snapshot.ErrRefused, method)),
		}.Start(t, echo(), Options{})
	}
	for _, method := range []string{"Head", "Runs"} {
		st, err := away(method).Inspect(t.Context(), "s")
		wantErr(t, err, orchestrator.ErrUnavailable)
		wantStanding(t, st, orchestrator.Standing{Turn: -1})
	}
	k := checkpoint.Key{Orchestrator: "echo", Session: "s"}
	if _, err := seize(t.Context(), w.Checkpoints, k, "another", time.Minute); err != nil {
		t.Fatal(err)
	}
	if st := inspect(t, away("Beat")); st.Owner == "" || st.Beats != 0 {
		t.Errorf("without beats: %+v", st)
	}
	_, err := w.Start(t, echo(), Options{}).Inspect(t.Context(), "")
	if _, ok := errors.AsType[*orchestrator.InputError](err); !ok {
		t.Errorf("no session: %v", err)
	}
}
