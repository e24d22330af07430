package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

var hung = faulttest.On(func(ctx context.Context, _ faulttest.Call, _ func(context.Context) error) error {
	<-ctx.Done()
	return ctx.Err()
}, "Effects")

// leaveInDoubt leaves a run in doubt of its payment.
func leaveInDoubt(t *testing.T, s shop) {
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes", RequestID: "r"}, nil)
	wantDoubt(t, err, true)
}

// A ledger that does not answer a read holds no session.
func TestLedgerReadHangs(t *testing.T) {
	shoes := Input{Text: "shoes", RequestID: "r"}
	for name, c := range map[string]struct {
		in    Input
		want  error
		leave func(*testing.T, shop)
	}{
		// What the run waits for is asked of the ledger.
		"a run that is suspended": {Input{Text: "more"}, orchestrator.ErrUnavailable, leaveInDoubt},
		"its repeat":              {shoes, orchestrator.ErrIndeterminate, leaveInDoubt},
		// What an earlier owner of the run has left in doubt is asked of it.
		"a run that fails": {shoes, orchestrator.ErrIndeterminate, func(t *testing.T, s shop) {
			s.Crash(t, func(die func()) Def {
				return single(func(context.Context, *Turn) error { die(); return errors.New("died") })
			}, shoes)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				c.leave(t, s)
				d := single(func(context.Context, *Turn) error { return errors.New("no") })
				bot := s.Start(t, d, Options{Ledger: faulttest.Ledger(s.Ledger, hung)})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				_, err := bot.Execute(ctx, "s", c.in, nil)
				wantErr(t, err, c.want)
				if errors.Is(err, orchestrator.ErrUnavailable) && errors.Is(err, orchestrator.ErrIndeterminate) {
					t.Errorf("two verdicts: %v", err)
				}
				if errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				start = time.Now()
				_, err = s.Start(t, d, Options{}).Execute(ctx, "s", c.in, nil)
				if took := time.Since(start); took > time.Second {
					t.Errorf("the session was held for another %v: %v", took, err)
				}
			})
		})
	}
}

// A ledger that is slow is waited for: each question has a limit of its own, and a late answer counts.
func TestLedgerReadSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, each := newShop(), []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
		for range each {
			s.Vendor.Fail = append(s.Vendor.Fail, errTimeout)
		}
		d := single(func(ctx context.Context, t *Turn) error {
			var all []error
			for _, item := range each {
				_, err := s.Vendor.Once(ctx, t, item, orchestrator.OnceOptions[string]{Each: item})
				all = append(all, err)
			}
			return errors.Join(all...)
		})
		in := Input{Text: "shoes", RequestID: "r"}
		_, err := s.Start(t, d, Options{}).Execute(t.Context(), "s", in, nil)
		wantDoubt(t, err, true)

		late := s.Start(t, d, Options{Ledger: faulttest.Ledger(s.Ledger, takes(10*time.Second))})
		_, err = late.Execute(t.Context(), "s", in, nil)
		wantErr(t, err, orchestrator.ErrSuspended)
		for _, e := range s.Effects(t, ledger.Query{}) {
			if err := ledger.Resolve(t.Context(), s.Ledger, e.ID, ledger.Answer{By: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		slow := s.Start(t, d, Options{Ledger: faulttest.Ledger(s.Ledger, takes(time.Second))})
		if _, err = slow.Execute(t.Context(), "s", in, nil); err != nil {
			t.Error(err)
		}
	})
}

// takes makes the queries of a ledger take a while. The ledger does not see that its caller waits no longer.
func takes(d time.Duration) faulttest.Around {
	return faulttest.On(func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		time.Sleep(d)
		return next(context.WithoutCancel(ctx))
	}, "Effects")
}

// The repeat of a suspended input does not know how it ends while its ledger fails, in whatever way.
func TestLedgerReadFails(t *testing.T) {
	s := newShop()
	leaveInDoubt(t, s)
	l := faulttest.Ledger(s.Ledger, faulttest.Fail(errors.New("connection reset by peer"), "Effects"))
	bot := s.Start(t, single(func(context.Context, *Turn) error { return nil }), Options{Ledger: l})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes", RequestID: "r"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	_, err = bot.Execute(t.Context(), "s", Input{Text: "more"}, nil)
	if err == nil || errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Errorf("another input: %v", err)
	}
}

// Kept turns say whether a run has settled. While they cannot be read, the repeat of its input does not know how it
// ends, and Resume does not wait for them.
func TestTurnsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d, in := newWorld(), echo(), Input{Text: "a", RequestID: "a"}
		hung := echo()
		hung.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Start(t, hung, Options{}).Execute(ctx, "s", in, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		other := worldOf(w.Checkpoints, new(snapshot.Memory)).Start(t, d, Options{}) // it does not see the run
		execute(t, other, Input{Text: "b"})
		execute(t, other, Input{Text: "c"})
		_, err = hangsAt(w, "Turns", 0).Start(t, d, Options{}).Execute(t.Context(), "s", in, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		if errors.Is(err, orchestrator.ErrUnavailable) {
			t.Errorf("two verdicts: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		leaveInDoubt(t, s)
		s.World = hangsAt(s.World, "Turns", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{}).Resume(ctx, "s", nil)
		if took := time.Since(start); err == nil || took > time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
