package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

func inspect(t *testing.T, bot *Bot) orchestrator.Standing {
	t.Helper()
	st, err := bot.Inspect(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// wantStanding compares what the checkpoint store says of session s.
func wantStanding(t *testing.T, got, want orchestrator.Standing) {
	t.Helper()
	want.Session = "s"
	got.Run, got.LeaseLeft, got.Beats = nil, 0, 0
	if got != want {
		t.Errorf("the standing is %+v, want %+v", got, want)
	}
}

// A session is inspected before its first turn, while it is at work, after a turn and after a crash.
func TestInspect(t *testing.T) {
	for name, open := range map[string]func(*testing.T) world{
		"memory": func(*testing.T) world { return newWorld() }, "sqlite": onSQLite,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			d, started := hanging()
			bot := w.start(t, d, Options{})
			st := inspect(t, bot)
			wantStanding(t, st, orchestrator.Standing{Turn: -1})
			if st.Run != nil || st.LeaseLeft != 0 || st.Beats != 0 {
				t.Errorf("without a session: %+v", st)
			}
			execute(t, bot, Input{Text: "quick"})
			wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: 0})

			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := bot.Execute(ctx, "s", Input{Text: "slow", RequestID: "r"}, nil)
				done <- err
			}()
			<-started
			atWork(t, w, w.start(t, d, Options{}))
			leave()
			wantErr(t, <-done, orchestrator.ErrIndeterminate)
			st = inspect(t, bot)
			wantStanding(t, st, orchestrator.Standing{Turn: 0})
			if st.Run == nil || st.Run.Status != snapshot.Waiting {
				t.Errorf("left in flight: %+v", st.Run)
			}
		})
	}
}

// atWork inspects session s from another process while a call is at work in its second turn.
func atWork(t *testing.T, w world, other *Bot) {
	t.Helper()
	st := inspect(t, other)
	if st.Owner == "" || st.LeaseLeft <= 0 {
		t.Fatalf("at work without an owner: %+v", st)
	}
	wantStanding(t, st, orchestrator.Standing{Owner: st.Owner, Turn: 0})
	beats, err := w.checkpoints.(lock.Beater).Beat(t.Context(), st.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if st = inspect(t, other); st.Beats < beats[st.Owner] {
		t.Errorf("%d beats, want %d", st.Beats, beats[st.Owner])
	}
	r := st.Run
	if r == nil || r.ID == "" || r.RequestID != "r" || r.Turn != 1 || r.Iteration != 0 ||
		r.Status != snapshot.Running || r.Started.IsZero() || r.Saved.IsZero() {
		t.Errorf("at work: %+v", r)
	}
}

// A run whose process died has no owner. Inspect says how far it was saved, and that the next attempt has begun.
func TestInspectCrashed(t *testing.T) {
	w := newWorld()
	w.crash(t, steps, Input{Text: "a"})
	bot := w.start(t, steps(nil), Options{})
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
	bot := w.start(t, d, Options{KeepSnapshots: 1})
	for _, owed := range []int{1, 2, 3} {
		execute(t, bot, Input{Text: "x"})
		wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: owed - 1, Owed: owed})
	}
}

// A suspended run names the effects that it waits for.
func TestInspectSuspended(t *testing.T) {
	s := newShop()
	s.vendor.fail = []error{errTimeout}
	bot := s.start(t, single(s.pays(orchestrator.OnceOptions[string]{})), Options{})
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
		w.snapshots = faulttest.Snapshots(w.snapshots, faulttest.Fail(errors.New("away"), "Delete"))
		bot := w.start(t, single(func(_ context.Context, t *Turn) error {
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
		for _, err := range w.snapshots.Runs(t.Context(), q) {
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
	plain := world{checkpoints: struct{ checkpoint.Store }{w.checkpoints}}
	bot := plain.start(t, echo(), Options{})
	wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: -1})
	execute(t, bot, Input{Text: "x"})
	execute(t, bot, Input{Text: "y"})
	wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: 1})
}

// What is damaged, or of a later version, comes as an error. The rest is told.
func TestInspectDamaged(t *testing.T) {
	w := newWorld()
	bot := w.start(t, steps(nil), Options{})
	execute(t, bot, Input{Text: "x"})
	w.crash(t, steps, Input{Text: "a", RequestID: "r"})
	run := wantRuns(t, bot, 1)[0]
	headless := world{headless{w.checkpoints}, w.snapshots}.start(t, steps(nil), Options{})
	st, err := headless.Inspect(t.Context(), "s")
	wantErr(t, err, checkpoint.ErrDamaged)
	if st.Turn != -1 || st.Run == nil || st.Run.ID != run.ID || st.Run.Iteration != 1 {
		t.Errorf("with a damaged head: %+v", st)
	}

	for payload, want := range map[string]error{`{"v":1}`: snapshot.ErrDamaged, `{"v":99}`: nil} {
		run.Seq++
		run.Payload = []byte(payload)
		if err := w.snapshots.Save(t.Context(), run); err != nil {
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
	bot := w.start(t, d, Options{})
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
	seer := world{faulttest.Checkpoints(w.checkpoints, count), faulttest.Snapshots(w.snapshots, count)}
	inspect(t, seer.start(t, d, Options{}))
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
			faulttest.Checkpoints(w.checkpoints, faulttest.Fail(checkpoint.ErrRefused, method)),
			faulttest.Snapshots(w.snapshots, faulttest.Fail(snapshot.ErrRefused, method)),
		}.start(t, echo(), Options{})
	}
	for _, method := range []string{"Head", "Runs"} {
		st, err := away(method).Inspect(t.Context(), "s")
		wantErr(t, err, orchestrator.ErrUnavailable)
		wantStanding(t, st, orchestrator.Standing{Turn: -1})
	}
	k := checkpoint.Key{Orchestrator: "echo", Session: "s"}
	if _, err := seize(t.Context(), w.checkpoints, k, "another", time.Minute); err != nil {
		t.Fatal(err)
	}
	if st := inspect(t, away("Beat")); st.Owner == "" || st.Beats != 0 {
		t.Errorf("without beats: %+v", st)
	}
	_, err := w.start(t, echo(), Options{}).Inspect(t.Context(), "")
	if _, ok := errors.AsType[*orchestrator.InputError](err); !ok {
		t.Errorf("no session: %v", err)
	}
}
