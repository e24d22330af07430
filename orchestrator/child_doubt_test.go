package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A family is a parent that has a child pay, as a tool.
type family struct{ child, parent *Bot }

// newFamily returns a family whose parent runs the call in a branch of its own, beside another, if fan is set.
func newFamily(t *testing.T, s shop, o orchestrator.OnceOptions[string], fan bool, options Options) *family {
	t.Helper()
	f := &family{child: s.Start(t, Def{Name: "child", Intents: Intents{"pay": {Run: pays(s, o)}}}, options)}
	tool := f.child.Tool("pay", "", nil, nil)
	next := orchestrator.To("ask")
	if fan {
		next = orchestrator.To("ask", "other")
	}
	f.parent = s.Start(t, Def{Name: "parent", Intents: Intents{
		"ask": {Run: func(ctx context.Context, t *Turn) error {
			reply, err := tool.Call(ctx, "1", []byte(`{"input":"shoes"}`))
			if err == nil {
				t.State.A = reply
			}
			return err
		}},
		"other": {Run: func(_ context.Context, t *Turn) error { t.State.N++; return nil }},
	}, Route: func(context.Context, *Turn) (Next, error) { return next, nil }}, options)
	return f
}

// A parent whose child waits for a person waits with it, and goes on when the person has answered. Told as failed, the
// user would ask again, and a fresh child would pay again.
func TestChildsDoubt(t *testing.T) {
	for _, fan := range []bool{false, true} {
		for _, goOn := range []string{"the same request", "Resume", "the drain"} {
			t.Run(fmt.Sprintf("fan %t, %s", fan, goOn), func(t *testing.T) {
				s := newShop()
				s.Vendor.Fail = []error{errTimeout}
				f := newFamily(t, s, orchestrator.OnceOptions[string]{}, fan, Options{})
				in := Input{RequestID: "r", Text: "shoes, please"}
				if due := recoverable(t, f.parent, true); len(
					due,
				) > 0 { // from now on it looks for what was answered since
					t.Fatal(due)
				}
				_, err := f.parent.Execute(t.Context(), "s", in, nil)
				d := theDoubt(t, err, true)
				wantErr(t, err, errTimeout)
				if id := s.Effect(t).ID; !slices.Equal(d.Effects, []string{id}) || d.RunID != details(t, err).RunID {
					t.Errorf("in doubt %q of run %s, want %q of run %s", d.Effects, d.RunID, id, details(t, err).RunID)
				}
				for _, bot := range []*Bot{f.child, f.parent} {
					if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Suspended || run.Attempt > 1 {
						t.Errorf("%s is %s, attempt %d", bot.Name(), run.Status, run.Attempt)
					}
				}
				_, err = f.parent.Execute(t.Context(), "s", Input{RequestID: "2", Text: "well?"}, nil)
				wantErr(t, err, orchestrator.ErrSuspended)
				if due := recoverable(t, f.parent, true); len(due) > 0 {
					t.Errorf("due before the answer: %q", due)
				}
				landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
				if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed); err != nil {
					t.Fatal(err)
				}
				err = nil
				switch goOn {
				case "Resume":
					_, err = f.parent.Resume(t.Context(), "s", nil)
				case "the drain":
					if due := recoverable(t, f.parent, true); !slices.Equal(due, []string{"s"}) {
						t.Errorf("due after the answer: %q", due)
					}
					var outcome string
					if outcome, err = f.parent.Recover(t.Context(), "s"); outcome != "settled" {
						t.Errorf("outcome %s", outcome)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				res := execute(t, f.parent, in)
				if n := s.Vendor.Count(); n != 1 || res.State.A == "" {
					t.Errorf("paid %d times, and the tool says %q", n, res.State.A)
				}
				if fan && res.State.N != 1 {
					t.Errorf("the other branch ran %d times", res.State.N)
				}
				wantRuns(t, f.child, 0)
			})
		}
	}
}

// A parent whose child waits, and is tried again, waits too. It is parked with it in the end.
func TestChildWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		s.Vendor.Honours, s.Vendor.Fail = true, []error{errTimeout}
		f := newFamily(t, s, orchestrator.OnceOptions[string]{Class: ledger.Idempotent}, false, Options{})
		in := Input{RequestID: "r", Text: "shoes, please"}
		_, err := f.parent.Execute(t.Context(), "s", in, nil)
		wantDoubt(t, err, false)
		if run := wantRuns(t, f.parent, 1)[0]; run.Status != snapshot.Waiting || run.Pause <= 0 {
			t.Errorf("the parent is %s, for %v", run.Status, run.Pause)
		}
		time.Sleep(time.Minute)
		if outcome, err := f.parent.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
			t.Errorf("%s: %v", outcome, err)
		}
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("paid %d times", n)
		}
	})
}

// The child's turn may go on, and no effect of it is known yet: it is in flight, or parked. The parent does not fail.
// If the child is over, or has not begun, the parent fails as with any other error.
func TestChildInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		run     func(ctx context.Context, t *Turn) error
		timeout time.Duration
		doubt   bool
	}{
		"the parent's time is up": {func(ctx context.Context, _ *Turn) error {
			<-ctx.Done()
			return ctx.Err()
		}, time.Second, true},
		"failed": {func(context.Context, *Turn) error { return errAway }, 0, false},
	} {
		for _, swallows := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, swallows %t", name, swallows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShop()
					child := s.Start(t, Def{Name: "child", Intents: Intents{"work": {Run: c.run}}}, Options{})
					tool := child.Tool("work", "", nil, nil)
					parent := s.Start(t, Def{Name: "parent", Intents: Intents{"ask": {
						Timeout: c.timeout,
						Run: func(ctx context.Context, _ *Turn) error {
							_, err := tool.Call(ctx, "1", []byte(`{"input":"shoes"}`))
							if swallows {
								return errors.New("the model is confused")
							}
							return err
						},
					}}}, Options{})
					_, err := parent.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
					doubt := errors.Is(err, ledger.ErrInDoubt) && errors.Is(err, orchestrator.ErrIndeterminate)
					if doubt != c.doubt {
						t.Errorf("got %v, want doubt: %t", err, c.doubt)
					}
					if !c.doubt {
						wantRuns(t, parent, 0)
					}
				})
			})
		}
	}
}

// A child without a ledger has no effects: whatever becomes of it, its parent fails.
func TestChildWithoutEffects(t *testing.T) {
	w := newWorld()
	child := w.Start(t, Def{Name: "child", Intents: Intents{"work": {Run: func(ctx context.Context, _ *Turn) error {
		<-ctx.Done()
		return ctx.Err()
	}}}}, Options{})
	tool := child.Tool("work", "", nil, nil)
	parent := w.Start(t, Def{Name: "parent", Intents: Intents{"ask": {
		Timeout: time.Millisecond,
		Run: func(ctx context.Context, _ *Turn) error {
			_, err := tool.Call(ctx, "1", []byte(`{"input":"x"}`))
			return err
		},
	}}}, Options{Ledger: new(ledger.Memory)})
	_, err := parent.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	if errors.Is(err, orchestrator.ErrIndeterminate) || err == nil {
		t.Errorf("got %v, want a failure", err)
	}
}

// A parent without a ledger cannot find an answer. So it is tried again, and not suspended.
func TestParentWithoutLedger(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	child := s.Start(
		t,
		Def{Name: "child", Intents: Intents{"pay": {Run: pays(s, orchestrator.OnceOptions[string]{})}}},
		Options{},
	)
	tool := child.Tool("pay", "", nil, nil)
	parent := s.World.Start(t, single(func(ctx context.Context, _ *Turn) error {
		_, err := tool.Call(ctx, "1", []byte(`{"input":"shoes"}`))
		return err
	}), Options{})
	_, err := parent.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	d := theDoubt(t, err, false)
	landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
	if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed); err != nil {
		t.Fatal(err)
	}
	execute(t, parent, Input{RequestID: "r"})
	if n := s.Vendor.Count(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// The decision of a parent is durable before a child with effects begins: after a crash Route may not leave the child.
func TestToolKeepsDecision(t *testing.T) {
	s := newShop()
	s.Vendor.Honours = true
	f := newFamily(t, s, orchestrator.OnceOptions[string]{Class: ledger.Idempotent}, false, Options{})
	tool := f.child.Tool("pay", "", nil, nil)
	to := "by card"
	parent := func(die func()) Def {
		ask := func(callID string) func(ctx context.Context, t *Turn) error {
			return func(ctx context.Context, _ *Turn) error {
				_, err := tool.Call(ctx, callID, []byte(`{"input":"shoes"}`))
				die()
				return err
			}
		}
		return Def{
			Name: "router", Intents: Intents{"by card": {Run: ask("1")}, "by bank": {Run: ask("2")}},
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To(to), nil },
		}
	}
	in := Input{RequestID: "r"}
	s.Crash(t, parent, in)
	to = "by bank"
	execute(t, s.Start(t, parent(nobodyDies), Options{}), in)
	if n := s.Vendor.Count(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// The usage of a child counts once, however often its call is made: by a process that goes on after another, in a
// fan-out, after the child has waited, and after it has failed.
func TestUsageOfTool(t *testing.T) {
	for _, how := range []string{"left", "killed in a fan-out", "child waits", "child fails", "another iteration"} {
		t.Run(how, func(t *testing.T) {
			s := newShop()
			first := true
			child := s.Start(
				t,
				Def{Name: "child", Intents: Intents{"work": {Run: func(ctx context.Context, t *Turn) error {
					if how == "child waits" && first || how != "child waits" {
						t.AddUsage(orchestrator.Usage{Input: 100})
					}
					if first && how == "child fails" {
						return errAway
					}
					if how == "child waits" {
						_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
						return err
					}
					return nil
				}}}},
				Options{},
			)
			tool := child.Tool("work", "", nil, nil)
			saved := make(chan struct{})
			d := func(die func()) Def {
				call := func(ctx context.Context, callID string) error {
					_, err := tool.Call(ctx, callID, []byte(`{"input":"x"}`))
					return err
				}
				d := Def{Name: "parent", Intents: Intents{
					"ask": {Run: func(ctx context.Context, t *Turn) error {
						err := call(ctx, "1")
						if first && how == "killed in a fan-out" {
							close(saved)
							die()
							return errAway
						}
						if first && how == "left" {
							die()
							<-ctx.Done()
							return ctx.Err()
						}
						return err
					}},
					"other": {Run: func(context.Context, *Turn) error {
						if first {
							<-saved
						}
						return nil
					}},
				}, Route: func(context.Context, *Turn) (Next, error) {
					if how == "killed in a fan-out" {
						return orchestrator.To("ask", "other"), nil
					}
					return orchestrator.To("ask"), nil
				}}
				if how == "another iteration" {
					d.Iterate = true
					d.Intents["again"] = Intent{Run: func(ctx context.Context, t *Turn) error {
						if first {
							die()
						}
						return call(ctx, "2")
					}, Next: orchestrator.End}
					d.Intents["ask"] = Intent{Run: d.Intents["ask"].Run, Next: orchestrator.To("again")}
				}
				return d
			}
			in, want := Input{RequestID: "r"}, 100
			switch how {
			case "left":
				ctx, cancel := context.WithCancel(t.Context())
				bot := s.Start(t, d(cancel), Options{})
				if _, err := bot.Execute(ctx, "s", in, nil); err == nil {
					t.Fatal("settled")
				}
			case "child waits":
				s.Vendor.Fail = []error{errTimeout}
				_, err := s.Start(t, d(nobodyDies), Options{}).Execute(t.Context(), "s", in, nil)
				doubt := theDoubt(t, err, true)
				if u := details(t, err).Usage.Input; u != 100 {
					t.Errorf("the parent has used %d while it waits", u)
				}
				err = ledger.Resolve(t.Context(), s.Ledger, doubt.Effects[0], ledger.Answer{By: "ann"})
				if err != nil {
					t.Fatal(err)
				}
			case "child fails":
				bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
					_, err := tool.Call(ctx, "1", []byte(`{"input":"x"}`))
					first = false
					if err != nil {
						_, err = tool.Call(ctx, "1", []byte(`{"input":"x"}`))
					}
					if err == nil {
						_, err = tool.Call(ctx, "1", []byte(`{"input":"x"}`))
					}
					return err
				}), Options{})
				if u := execute(t, bot, in).Usage.Input; u != 200 {
					t.Errorf("two attempts of 100 are counted as %d", u)
				}
				return
			case "another iteration":
				want = 200
				s.Crash(t, d, in)
			default:
				s.Crash(t, d, in)
			}
			first = false
			res := execute(t, s.Start(t, d(nobodyDies), Options{}), in)
			if res.Usage.Input != want {
				t.Errorf("counted %d, want %d", res.Usage.Input, want)
			}
		})
	}
}
