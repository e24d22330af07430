package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

func TestAbandonCrashed(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, steps(nil), Options{})
	if err := abandon(t, bot, "s"); err != nil {
		t.Fatal(err)
	}
	w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
	if err := abandon(t, bot, "s"); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, bot, 0)
	wantSaid(t, execute(t, bot, Input{Text: "a", RequestID: "r"}).State, "a one", "a two", "a three")
}

// Abandon ends a turn wherever it runs: in this process at once, in another at its next call to a store.
func TestAbandonLive(t *testing.T) {
	for _, here := range []bool{true, false} {
		w := newWorld()
		d, started := hanging()
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: 60 * time.Millisecond}})
		other := bot
		if !here {
			other = w.Start(t, d, Options{})
		}
		done := make(chan error)
		go func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
			done <- err
		}()
		<-started
		if err := abandon(t, other, "s"); err != nil {
			t.Fatal(err)
		}
		err := <-done
		wantErr(t, err, orchestrator.ErrIndeterminate)
		if here {
			wantErr(t, err, orchestrator.ErrAbandoned)
		} else {
			wantErr(t, err, lock.ErrLost)
		}
		wantRuns(t, bot, 0)
		if got := turns(t, bot); len(got) != 0 {
			t.Errorf("turns %q", got)
		}
		execute(t, bot, Input{Text: "quick"})
	}
}

func TestDelete(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, steps(nil), Options{})
	execute(t, bot, Input{Text: "x"})
	w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
	run := wantRuns(t, bot, 1)[0]
	if err := bot.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, bot, 0)
	if got := turns(t, bot); len(got) != 0 {
		t.Errorf("turns %q", got)
	}
	if err := bot.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	res := execute(t, bot, Input{Text: "a", RequestID: "r"})
	if res.RunID == run.ID || res.Turn != 0 {
		t.Errorf("the request id of the former life is run %s, turn %d", res.RunID, res.Turn)
	}
}

// Abandon works without a snapshot store too.
func TestDeletePlain(t *testing.T) {
	w := world{Checkpoints: new(checkpoint.Memory)}
	bot := w.Start(t, echo(), Options{})
	execute(t, bot, Input{Text: "x"})
	if err := bot.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if res := execute(t, bot, Input{Text: "y"}); res.Turn != 0 {
		t.Errorf("turn %d", res.Turn)
	}
}

// A session that cannot be read any more can be deleted, and is refused to every other call.
func TestDeleteDamaged(t *testing.T) {
	w := newWorld()
	execute(t, w.Start(t, echo(), Options{}), Input{Text: "x"})
	bot := worldOf(unreadable{w.Checkpoints}, w.Snapshots).Start(t, echo(), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "y"}, nil)
	wantErr(t, err, checkpoint.ErrDamaged)
	if err := bot.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if got := turns(t, w.Start(t, echo(), Options{})); len(got) != 0 {
		t.Errorf("turns %q", got)
	}
}

// So can one with a run in flight, whose stores are not joined, and also if its head is gone.
func TestDeleteDamagedWithRun(t *testing.T) {
	for name, first := range map[string]bool{"in the first turn": true, "in a later turn": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.On(nil)) // no Joiner
			if !first {
				execute(t, w.Start(t, echo(), Options{}), Input{Text: "x"})
			}
			w.Crash(t, func(die func()) Def {
				d := echo()
				d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
				return d
			}, Input{Text: "y"})
			bot := worldOf(unreadable{w.Checkpoints}, w.Snapshots).Start(t, echo(), Options{})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "z"}, nil)
			wantErr(t, err, checkpoint.ErrDamaged)
			if err := bot.Delete(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			healed := w.Start(t, echo(), Options{})
			wantRuns(t, healed, 0)
			if res := execute(t, healed, Input{Text: "new"}); res.Turn != 0 {
				t.Errorf("turn %d after Delete", res.Turn)
			}
		})
	}
}

// An unreadable store finds every session damaged, and grants the lease under which it can be deleted.
type unreadable struct{ checkpoint.Store }

func (u unreadable) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := u.Store.Claim(ctx, k, r)
	if err == nil {
		err = checkpoint.Damaged(k, errors.New("the head is gone"))
	}
	return checkpoint.Claimed{Lease: c.Lease}, err
}

// A turn that calls for its own session gets an error instead of waiting for itself.
func TestReentrant(t *testing.T) {
	var bot *Bot
	calls := map[string]func(context.Context) error{
		"execute": func(ctx context.Context) error { _, err := bot.Execute(ctx, "s", Input{}, nil); return err },
		"abandon": func(ctx context.Context) error { _, err := bot.Abandon(ctx, "s", ""); return err },
		"delete":  func(ctx context.Context) error { return bot.Delete(ctx, "s") },
		"recover": func(ctx context.Context) error { _, err := bot.Recover(ctx, "s"); return err },
		"resume":  func(ctx context.Context) error { _, err := bot.Resume(ctx, "s", nil); return err },
	}
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
		if call := calls[t.Input.Text]; call != nil {
			return call(ctx)
		}
		_, err := bot.Execute(ctx, "another", Input{Text: t.Input.Text}, nil)
		return err
	}}
	bot = newWorld().Start(t, d, Options{})
	for name := range calls {
		_, err := bot.Execute(t.Context(), "s", Input{Text: name}, nil)
		wantErr(t, err, orchestrator.ErrReentrant)
	}
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d, started := hanging()
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{LockWait: time.Second}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := bot.Execute(ctx, "s", Input{}, nil)
			done <- err
		}()
		<-started
		for name, waiter := range map[string]*Bot{
			"same process": bot,
			"another":      w.Start(t, d, Options{Limits: orchestrator.Limits{LockWait: time.Second}}),
		} {
			start := time.Now()
			_, err := waiter.Execute(t.Context(), "s", Input{}, nil)
			wantErr(t, err, orchestrator.ErrBusy)
			if waited := time.Since(start); waited != time.Second {
				t.Errorf("%s: waited %v", name, waited)
			}
			gone, leave := context.WithTimeout(t.Context(), time.Millisecond)
			_, err = waiter.Execute(gone, "s", Input{}, nil)
			leave()
			wantErr(t, err, context.DeadlineExceeded)
		}
		cancel()
		wantErr(t, <-done, orchestrator.ErrIndeterminate)
	})
}

// Turns of one session queue. Turns of several sessions do not.
func TestQueue(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, echo(), Options{})
	errs := make(chan error)
	const n = 50
	for range n {
		go func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := len(turns(t, bot)); got != n {
		t.Errorf("%d turns", got)
	}
}

// Shutdown lets turns finish. It hands off the turns that do not finish in time.
func TestShutdown(t *testing.T) {
	w := newWorld()
	d, started := hanging()
	bot := w.Start(t, d, Options{})
	done := make(chan error, 2)
	run := func(ctx context.Context) {
		_, err := bot.Execute(ctx, "s", Input{}, nil)
		done <- err
	}
	go run(t.Context())
	<-started
	go run(t.Context()) // waits for the first
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- bot.Shutdown(ctx) }()
	wantErr(t, <-done, orchestrator.ErrShuttingDown)
	cancel()
	wantErr(t, <-done, orchestrator.ErrIndeterminate, lock.ErrHandoff)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrShuttingDown)
	// The run has run in vain.
	if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Waiting || run.Attempt != 1 {
		t.Errorf("handed off as %s, attempt %d", run.Status, run.Attempt)
	}
	other := w.Start(t, echoAs("hang"), Options{})
	if got := recoverable(t, other, false); len(got) != 1 {
		t.Errorf("handed off, and not found: %q", got)
	}
	if err := bot.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// echoAs is a bot with the definition of hanging, but it does not hang.
func echoAs(intent string) Def {
	return Def{Name: intent, Intents: Intents{intent: {Run: say("done")}}}
}

func TestShutdownIdle(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{})
	execute(t, bot, Input{Text: "a"})
	if err := bot.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A turn that is under way when Shutdown is called may finish, however many iterations are left.
func TestShutdownWaits(t *testing.T) {
	w := newWorld()
	d := steps(nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	one := d.Intents["one"]
	d.Intents["one"] = Intent{Next: one.Next, Run: func(ctx context.Context, t *Turn) error {
		close(begun)
		<-goOn
		return one.Run(ctx, t)
	}}
	bot := w.Start(t, d, Options{})
	st := bot.Stream(t.Context(), "s", Input{Text: "a"}, nil)
	<-begun
	stopped := make(chan error)
	go func() { stopped <- bot.Shutdown(t.Context()) }()
	close(goOn)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if res, err := st.Result(); err != nil || len(res.Steps) != 3 {
		t.Errorf("%v, %v", res, err)
	}
}

// The engine waits for a function that ignores its context. After that, no event of the function is heard.
func TestStuck(t *testing.T) {
	release := make(chan struct{})
	d := Def{Name: "stuck", Intents: Intents{"stuck": {
		Timeout: time.Millisecond,
		Run: func(_ context.Context, t *Turn) error {
			<-release
			t.Emit("too late")
			t.AddUsage(orchestrator.Usage{Input: 1})
			return nil
		},
	}}}
	w := newWorld()
	limits := orchestrator.Limits{SettleTimeout: 20 * time.Millisecond, LeaseTTL: 500 * time.Millisecond}
	bot := w.Start(t, d, Options{Limits: limits})
	events := new(diary)
	defer bot.Subscribe(events.Note)()
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	close(release)
	wantRuns(t, bot, 1)
	res, err := w.Start(t, echoAs("stuck"), Options{}).Resume(t.Context(), "s", nil) // once the lease has expired
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "done")
	if res.Usage.Input != 0 {
		t.Error("what was given up still counts")
	}
	if got := events.Text(); errors.Is(err, orchestrator.ErrIndeterminate) || len(got) == 0 {
		t.Error(got)
	}
}
