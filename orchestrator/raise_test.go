package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// raise tells the ledger of a failover.
func raiseDoubt(t *testing.T, s shop) {
	t.Helper()
	if _, err := s.Ledger.(lock.Raiser).Raise(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
}

// notLanded answers for all that is in doubt.
func tellNotLanded(t *testing.T, s shop) {
	t.Helper()
	for _, e := range s.Effects(t, ledger.Query{Open: true}) {
		if err := ledger.Resolve(t.Context(), s.Ledger, e.ID, ledger.Answer{By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
}

// An effect without Key is in doubt after a Raise if its run may have begun before: the run was in flight, or its
// request id may be that of an earlier call. A run that began after the Raise pays.
func TestRaisedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		ctx, leave := context.WithCancel(t.Context())
		bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
			if t.Input.Text == "old" && ctx.Err() == nil {
				leave()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_, err := s.Vendor.Once(ctx, t, t.Input.Text, orchestrator.OnceOptions[string]{})
			return err
		}), Options{})
		_, err := bot.Execute(ctx, "s", Input{Text: "old"}, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		time.Sleep(time.Hour)
		raiseDoubt(t, s)
		time.Sleep(2 * time.Minute) // clocks may differ by one
		_, err = bot.Resume(t.Context(), "s", nil)
		wantDoubt(t, err, true)
		if e := s.Effect(t); e.State != ledger.Unknown || e.Error == "" {
			t.Errorf("%+v", e)
		}
		tellNotLanded(t, s)
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil || s.Vendor.Count() != 1 {
			t.Fatalf("paid %d times, %v", s.Vendor.Count(), err)
		}

		execute(t, bot, Input{Text: "new"})
		_, err = bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "repeated"}, nil)
		wantDoubt(t, err, true)
		tellNotLanded(t, s)
		execute(t, bot, Input{RequestID: "r", Text: "repeated"})
		if n := s.Vendor.Count(); n != 3 {
			t.Errorf("paid %d times, want 3", n)
		}
		time.Sleep(ledger.DefaultDoubt)
		execute(t, bot, Input{RequestID: "next", Text: "the day after"})
	})
}

// A payment that has failed may have been tried again, with success, in what a failover has lost. So it is in doubt
// before it is tried again, and is paid if it did not land.
func TestRaisedFailed(t *testing.T) {
	for _, class := range []ledger.Class{ledger.Ask, ledger.Verifiable} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				var fail error = ledger.NotDone(errDeclined)
				asked := 0
				o := orchestrator.OnceOptions[string]{Key: "order-7", Class: class}
				if class == ledger.Verifiable {
					o.Verify = func(ctx context.Context, key string) (string, bool, error) {
						asked++
						return s.Vendor.Find(ctx, key)
					}
				}
				bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
					_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
						if fail != nil {
							return "", fail
						}
						return s.Vendor.Pay(key, "order-7")
					}, &o)
					return err
				}), Options{})
				_, err := bot.Execute(t.Context(), "before", Input{Text: "hello"}, nil)
				wantErr(t, err, errDeclined)
				raiseDoubt(t, s)
				time.Sleep(time.Hour)
				fail = nil
				if _, err = bot.Execute(t.Context(), "after", Input{Text: "hello"}, nil); s.Vendor.Count() != 0 {
					t.Fatalf("paid %d times without a question, %v", s.Vendor.Count(), err)
				}
				wantDoubt(t, err, class == ledger.Ask)
				time.Sleep(time.Hour)
				if class == ledger.Ask {
					tellNotLanded(t, s)
				} else if asked == 0 {
					t.Error("the other side was not asked")
				}
				if _, err = bot.Resume(t.Context(), "after", nil); err != nil || s.Vendor.Count() != 1 {
					t.Errorf("paid %d times, %v", s.Vendor.Count(), err)
				}
			})
		})
	}
}

// A fan-out waits for all its effects that are in doubt by a Raise, and a parent for those of its tool.
func TestRaisedBranchesAndTools(t *testing.T) {
	s := newShop()
	bot := s.Start(t, Def{
		Name: "fan", Intents: Intents{"pay": {Run: func(ctx context.Context, t *Turn) error {
			_, err := s.Vendor.Once(ctx, t, orchestrator.Item[string](t), orchestrator.OnceOptions[string]{})
			return err
		}}},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.ForEach("pay", "a", "b", "c"), nil },
	}, Options{})
	f := newFamily(t, s, orchestrator.OnceOptions[string]{}, false, Options{})
	raiseDoubt(t, s)
	in := Input{RequestID: "r", Text: "hello"}
	_, err := bot.Execute(t.Context(), "s", in, nil)
	if d := theDoubt(t, err, true); len(d.Effects) != 3 {
		t.Errorf("in doubt: %q", d.Effects)
	}
	_, err = f.parent.Execute(t.Context(), "s", in, nil)
	wantDoubt(t, err, true)
	if n := s.Vendor.Count(); n != 0 {
		t.Errorf("paid %d times before the answers", n)
	}
	tellNotLanded(t, s)
	execute(t, bot, in)
	execute(t, f.parent, in)
	if n := s.Vendor.Count(); n != 4 {
		t.Errorf("paid %d times, want 4", n)
	}
}
