package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A joinedShop is a shop whose stores are one database. It notes the writes that wait for a disk.
type joinedShop struct {
	shop
	mu     sync.Mutex // protects following fields
	writes []string

	// around is asked before the stores; nil asks them.
	around faulttest.Around

	// log is the turn log in the database of the others; nil: none.
	log turnlog.Log
}

// A notedLog is a turn log whose entries are noted.
type notedLog struct{ *joinedShop }

// Record implements turnlog.Log.
func (l notedLog) Record(ctx context.Context, e turnlog.Entry) error {
	c := faulttest.Call{Method: "Record", Session: e.Session, Run: e.Run}
	return l.note(ctx, c, func(ctx context.Context) error { return l.log.Record(ctx, e) })
}

// Restore implements turnlog.Log.
func (l notedLog) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	return l.log.Restore(ctx, run)
}

func newJoinedShop() *joinedShop { return &joinedShop{shop: newShop()} }

// note is the Around of the stores. A write is named with what it carries.
func (s *joinedShop) note(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
	ask := next
	next = func(ctx context.Context) error {
		err := ask(ctx)
		writes := []string{"Begin", "Save", "Append", "Settle", "Issue", "Finish", "Record"}
		if slices.Contains(writes, c.Method) && err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			name := c.Method
			for range c.Cargo.Finish {
				name += " finish"
			}
			for range c.Cargo.Issue {
				name += " issue"
			}
			for range c.Cargo.Log {
				name += " log"
			}
			s.writes = append(s.writes, name)
		}
		return err
	}
	if s.around != nil {
		return s.around(ctx, c, next)
	}
	return next(ctx)
}

func (s *joinedShop) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.writes, ", ")
}

func (s *joinedShop) open(t *testing.T, d Def, linger time.Duration) *Bot {
	t.Helper()
	d.Name = "shop"
	o := Options{
		Snapshots: faulttest.Joined(s.Snapshots, s.Checkpoints, s.log, s.note),
		Ledger:    faulttest.Ledger(s.Ledger, s.note), Logger: quiet(), Effects: orchestrator.Effects{Linger: linger},
	}
	if s.log != nil {
		o.TurnLog = notedLog{s}
	}
	bot, err := orchestrator.New(d, faulttest.Checkpoints(s.Checkpoints, s.note), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bot.Shutdown(context.WithoutCancel(t.Context())) })
	return bot
}

// idempotent is an effect of the intent pay, for what.
func idempotent(what string) *orchestrator.OnceOptions[string] {
	return &orchestrator.OnceOptions[string]{Class: ledger.Idempotent, Each: what, Args: what}
}

// announces is a bot that decides, announces effects, and does others.
func (s *joinedShop) announces(announce, pay []string) Def {
	return Def{
		Iterate: true, First: "think",
		Intents: orchestrator.Intents[State]{
			"think": {Next: orchestrator.To("pay"), Run: func(_ context.Context, t *Turn) error {
				for _, what := range announce {
					if err := orchestrator.Ahead(t, "pay", "pay", idempotent(what)); err != nil {
						return err
					}
				}
				return nil
			}},
			"pay": {Next: orchestrator.To("say"), Run: func(ctx context.Context, t *Turn) error {
				var group sync.WaitGroup
				receipts, errs := make([]string, len(pay)), make([]error, len(pay))
				for i, what := range pay {
					group.Go(func() { receipts[i], errs[i] = s.Vendor.Once(ctx, t, what, *idempotent(what)) })
				}
				group.Wait()
				slices.Sort(receipts)
				t.State.Said = append(t.State.Said, receipts...)
				return errors.Join(errs...)
			}},
			"say": {Next: orchestrator.End, Run: func(context.Context, *Turn) error { return nil }},
		},
	}
}

// A step with effects is two durable writes on joined stores: the save before it, and the one behind it.
func TestStepIsTwoWrites(t *testing.T) {
	for name, c := range map[string]struct {
		announce, pay []string
		want          string
	}{
		"one effect": {
			[]string{"shoes"}, []string{"shoes"}, "Begin, Save issue, Save finish, Settle",
		},
		"three at once": {
			[]string{"a", "b", "c"},
			[]string{"a", "b", "c"},
			"Begin, Save issue issue issue, Save finish finish finish, Settle",
		},
		"one that is not called": {
			[]string{"a", "b"}, []string{"b"}, "Begin, Save issue issue, Save finish finish, Settle",
		},
		"one that was not announced": {nil, []string{"a"}, "Begin, Save, Issue, Save finish, Settle"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newJoinedShop()
			execute(t, s.open(t, s.announces(c.announce, c.pay), time.Hour), Input{RequestID: "r"})
			if got := s.written(); got != c.want {
				t.Errorf("wrote %s\nwant  %s", got, c.want)
			}
			if n := s.Vendor.Count(); n != len(c.pay) {
				t.Errorf("paid %d times, want %d", n, len(c.pay))
			}
			for _, e := range s.Effects(t, ledger.Query{}) {
				want := ledger.Failed
				if slices.Contains(c.pay, e.Each) {
					want = ledger.Completed
				}
				if e.State != want || e.Attempts != 1 {
					t.Errorf("%s is %s after %d attempts, want %s", e.Each, e.State, e.Attempts, want)
				}
			}
		})
	}
}

// Stores that are two databases write as before.
func TestStepApart(t *testing.T) {
	s := newJoinedShop()
	d := s.announces([]string{"shoes"}, []string{"shoes"})
	d.Name = "shop"
	bot, err := orchestrator.New(d, faulttest.Checkpoints(s.Checkpoints, s.note), &Options{
		Snapshots: faulttest.Snapshots(s.Snapshots, s.note), Ledger: faulttest.Ledger(s.Ledger, s.note),
		Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, bot, Input{RequestID: "r"})
	if got, want := s.written(), "Begin, Save, Issue, Finish, Save, Append"; got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
}

// Effects one after the other: each outcome is durable before the next effect begins, and rides with its Issue.
func TestEffectsInARow(t *testing.T) {
	s, tb := newJoinedShop(), t
	bot := s.open(t, single(func(ctx context.Context, t *Turn) error {
		for i := range 3 {
			o := idempotent(fmt.Sprint(i))
			_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
				for _, e := range s.Effects(tb, ledger.Query{}) {
					if e.Each != o.Each && e.State != ledger.Completed {
						return "", fmt.Errorf("%s is %s when %d begins", e.Each, e.State, i)
					}
				}
				return "paid", nil
			}, o)
			if err != nil {
				return err
			}
		}
		return nil
	}), time.Hour)
	execute(t, bot, Input{RequestID: "r"})
	if got, want := s.written(), "Begin, Issue, Save finish issue, Save finish issue, Finish, Settle"; got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
}

// What Route has decided is saved with the Issue.
func TestDecisionCarriesIssue(t *testing.T) {
	s := newJoinedShop()
	d := s.announces(nil, []string{"shoes"})
	d.First, d.Route = "", func(context.Context, *Turn) (Next, error) { return orchestrator.To("pay"), nil }
	execute(t, s.open(t, d, time.Hour), Input{RequestID: "r"})
	if got, want := s.written(), "Begin, Save issue, Save finish, Settle"; got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
}

// An outcome does not wait longer than Linger for a save, and not for a call that is recorded.
func TestLinger(t *testing.T) {
	for name, c := range map[string]struct {
		linger time.Duration
		slow   func(ctx context.Context, t *Turn) error
		want   string
	}{
		"a slow function": {5 * time.Millisecond, func(context.Context, *Turn) error {
			time.Sleep(time.Second)
			return nil
		}, "Begin, Issue, Finish, "},
		"a recorded call": {time.Hour, func(ctx context.Context, t *Turn) error {
			said := func(context.Context, string) (string, error) { return "yes", nil }
			_, err := orchestrator.Once(ctx, t, "ask", said, &orchestrator.OnceOptions[string]{Class: ledger.Pure})
			return err
		}, "Begin, Issue, Finish, Record, "},
		"never": {-1, func(context.Context, *Turn) error { return nil }, "Begin, Issue, Finish, "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newJoinedShop()
				var then string
				bot := s.open(t, single(func(ctx context.Context, t *Turn) error {
					_, err := s.Vendor.Once(ctx, t, "shoes", *idempotent("shoes"))
					if err == nil {
						err = c.slow(ctx, t)
					}
					then = s.written() + ", "
					return err
				}), c.linger)
				execute(t, bot, Input{RequestID: "r"})
				if then != c.want {
					t.Errorf("wrote %s\nwant  %s", then, c.want)
				}
				if err := bot.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A second call for one Key gets the outcome of the first, which no save has carried.
func TestLateOutcomeOfAKey(t *testing.T) {
	s := newJoinedShop()
	bot := s.open(t, single(func(ctx context.Context, t *Turn) error {
		for range 2 {
			receipt, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Key: "order"})
			if err != nil {
				return err
			}
			t.State.Said = append(t.State.Said, receipt)
		}
		return nil
	}), time.Hour)
	wantSaid(t, execute(t, bot, Input{RequestID: "r"}).State, "receipt 1 for shoes", "receipt 1 for shoes")
}

// The answer to a save that carries an Issue is lost: the save is repeated, and the effect happens once.
func TestCarriedAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJoinedShop()
		lost := false
		s.around = func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
			err := next(ctx)
			if c.Method == "Save" && !lost {
				lost = true
				return errors.New("connection reset")
			}
			return err
		}
		bot := s.open(t, s.announces([]string{"shoes"}, []string{"shoes"}), time.Hour)
		wantSaid(t, execute(t, bot, Input{RequestID: "r"}).State, "receipt 1 for shoes")
		if got, want := s.written(), "Begin, Save issue, Save issue, Save finish, Settle"; got != want {
			t.Errorf("wrote %s\nwant  %s", got, want)
		}
		if e := s.Effect(t); e.Attempts != 1 || e.State != ledger.Completed {
			t.Errorf("the ledger has %+v", e)
		}
		if err := bot.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The session is lost at the save that carries an Issue: nothing is issued, and nothing runs.
func TestCarriedIsFenced(t *testing.T) {
	s := newJoinedShop()
	s.around = func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		if c.Method == "Save" {
			return lock.ErrFenced
		}
		return next(ctx)
	}
	bot := s.open(t, s.announces([]string{"shoes"}, []string{"shoes"}), time.Hour)
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate, lock.ErrFenced)
	if n, all := s.Vendor.Count(), s.Effects(t, ledger.Query{}); n != 0 || len(all) != 0 {
		t.Errorf("paid %d times, and the ledger has %+v", n, all)
	}
}

// The session is lost at the save that carries an outcome. The outcome is recorded all the same, by itself.
func TestOutcomeOfAFencedOwner(t *testing.T) {
	s := newJoinedShop()
	s.around = func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		if len(c.Cargo.Finish) > 0 {
			return lock.ErrFenced
		}
		return next(ctx)
	}
	bot := s.open(t, s.announces([]string{"shoes"}, []string{"shoes"}), time.Hour)
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate, lock.ErrFenced)
	if e := s.Effect(t); e.State != ledger.Completed {
		t.Errorf("the effect is %s", e.State)
	}
}

// The caller leaves between the save that issues an effect and the effect. It has not happened, and the ledger says so.
func TestCancelledBeforeItBegins(t *testing.T) {
	s := newJoinedShop()
	ctx, cancel := context.WithCancel(t.Context())
	s.around = func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		if len(c.Cargo.Issue) > 0 {
			defer cancel()
		}
		return next(ctx)
	}
	d := s.announces([]string{"shoes"}, []string{"shoes"})
	bot := s.open(t, d, time.Hour)
	_, err := bot.Execute(ctx, "s", Input{RequestID: "r"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
	if e := s.Effect(t); e.State != ledger.Failed || s.Vendor.Count() != 0 {
		t.Errorf("the effect is %s, and was paid %d times", e.State, s.Vendor.Count())
	}
	s.around = nil
	res, err := bot.Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "receipt 1 for shoes")
	if e := s.Effect(t); e.State != ledger.Completed || e.Attempts != 2 {
		t.Errorf("the ledger has %+v", e)
	}
}

// An effect that panics is in doubt at once: no save hides that.
func TestCarriedPanics(t *testing.T) {
	s := newJoinedShop()
	d := s.announces([]string{"shoes"}, nil)
	d.Intents["pay"] = Intent{Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
		_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) { panic("no") },
			idempotent("shoes"))
		return err
	}}
	bot := s.open(t, d, time.Hour)
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	if e := s.Effect(t); e.State != ledger.Unknown {
		t.Errorf("the effect is %s", e.State)
	}
}

// An effect that was announced with other arguments than it is called with is refused. It has not happened.
func TestAnnouncedOtherwise(t *testing.T) {
	s := newJoinedShop()
	d := s.announces(nil, nil)
	think := d.Intents["think"]
	think.Run = func(_ context.Context, t *Turn) error {
		o := idempotent("shoes")
		o.Args = "boots"
		return orchestrator.Ahead(t, "pay", "pay", o)
	}
	d.Intents["think"] = think
	d.Intents["pay"] = Intent{Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
		_, err := s.Vendor.Once(ctx, t, "shoes", *idempotent("shoes"))
		return err
	}}
	bot := s.open(t, d, time.Hour)
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	wantErr(t, err, ledger.ErrChanged)
	if errors.Is(err, orchestrator.ErrIndeterminate) || s.Vendor.Count() != 0 || s.Effect(t).State != ledger.Failed {
		t.Errorf("%v, paid %d times, the effect is %s", err, s.Vendor.Count(), s.Effect(t).State)
	}
}

// logging is a bot that records what it has thought, and then pays. In the end it fails, if it is told to.
func (s *joinedShop) logging(last error) Def {
	d := s.announces([]string{"shoes"}, []string{"shoes"})
	think, pay := d.Intents["think"].Run, d.Intents["pay"].Run
	note := func(ctx context.Context, t *Turn, phase, text string) error {
		return t.RecordSoon(ctx, phase, map[string]string{"text": text})
	}
	d.Intents["think"] = orchestrator.Intent[State]{
		Next: orchestrator.To("pay"), Run: func(ctx context.Context, t *Turn) error {
			return errors.Join(think(ctx, t), note(ctx, t, turnlog.LLMComplete, "thought"))
		},
	}
	d.Intents["pay"] = orchestrator.Intent[State]{
		Next: orchestrator.To("say"), Run: func(ctx context.Context, t *Turn) error {
			return errors.Join(pay(ctx, t), note(ctx, t, turnlog.ToolReceived, "paid"))
		},
	}
	d.Intents["say"] = orchestrator.Intent[State]{
		Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
			return errors.Join(note(ctx, t, turnlog.LLMComplete, "said"), last)
		},
	}
	return d
}

// logged returns the phases of all runs, in order, with the texts of logging.
func (s *joinedShop) logged(t *testing.T) string {
	t.Helper()
	var all []string
	for turn, err := range s.log.(turnlog.Lister).Turns(t.Context(), turnlog.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		entries, err := s.log.Restore(t.Context(), turn.First.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			var said struct{ Text string }
			_ = json.Unmarshal(e.State, &said)
			all = append(all, strings.TrimSpace(e.Phase+" "+said.Text))
		}
	}
	return strings.Join(all, ", ")
}

const (
	allLogged = "started, llm-complete thought, tool-received paid, llm-complete said, settled"
	allRide   = "Begin, Record, Save issue log, Save finish log, Record, Append, Record"
)

// Entries that need not be durable at once ride in the saves of the run. Those of the last intent are recorded before
// the turn settles, or fails.
func TestEntriesRide(t *testing.T) {
	s := newJoinedShop()
	s.log = new(turnlog.Memory)
	execute(t, s.open(t, s.logging(nil), time.Hour), Input{RequestID: "r"})
	if got := s.written(); got != allRide {
		t.Errorf("wrote %s\nwant  %s", got, allRide)
	}
	if got := s.logged(t); got != allLogged {
		t.Errorf("logged %s\nwant   %s", got, allLogged)
	}

	s = newJoinedShop()
	s.log = new(turnlog.Memory)
	if _, err := s.open(t, s.logging(errors.New("no")), time.Hour).Execute(t.Context(), "s", Input{}, nil); err == nil {
		t.Error("no error")
	}
	if got := s.logged(t); got != allLogged {
		t.Errorf("logged %s\nwant   %s", got, allLogged)
	}
	if got, want := s.written(), strings.Replace(allRide, "Append", "Save", 1); got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
}

// RecordSoon says at once what the log would refuse, and refuses what Record refuses.
func TestEntriesRefused(t *testing.T) {
	s := newJoinedShop()
	s.log = new(turnlog.Memory)
	var late func() error
	d := s.logging(nil)
	d.Intents["say"] = orchestrator.Intent[State]{
		Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
			late = func() error { return t.RecordSoon(ctx, turnlog.LLMComplete, 1) }
			large := strings.Repeat("x", turnlog.MaxState)
			for state, phase := range map[any]string{1: "unknown", 2: turnlog.Started, 3: turnlog.Settled} {
				if err := t.RecordSoon(ctx, phase, state); !errors.Is(err, turnlog.ErrPhase) {
					return fmt.Errorf("phase %s: %w", phase, err)
				}
			}
			for _, state := range []any{large, func() {}} {
				if err := t.RecordSoon(ctx, turnlog.LLMComplete, state); !errors.Is(err, turnlog.ErrState) {
					return fmt.Errorf("state %T: %w", state, err)
				}
			}
			return nil
		},
	}
	execute(t, s.open(t, d, time.Hour), Input{RequestID: "r"})
	if err := late(); err == nil {
		t.Error("the turn is over, and an entry is taken")
	}
	if got := s.logged(t); got != "started, llm-complete thought, tool-received paid, settled" {
		t.Errorf("logged %s", got)
	}
}

// A save that cannot carry its entries is a save without them, and they are recorded before it: here another owner has
// recorded something else in the same millisecond.
func TestEntryOfAnotherOwner(t *testing.T) {
	s := newJoinedShop()
	log := new(turnlog.Memory)
	s.log = log
	var once sync.Once
	s.around = func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		if len(c.Cargo.Log) > 0 {
			once.Do(func() {
				e := c.Cargo.Log[0]
				e.State = json.RawMessage(`{"text":"another"}`)
				if err := log.Record(ctx, e); err != nil {
					t.Error(err)
				}
			})
		}
		return next(ctx)
	}
	execute(t, s.open(t, s.logging(nil), time.Hour), Input{RequestID: "r"})
	want := strings.Replace(allLogged, "thought", "another, llm-complete thought", 1)
	if got := s.logged(t); got != want {
		t.Errorf("logged %s\nwant   %s", got, want)
	}
	if n := s.Vendor.Count(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// If the process dies before a save, the entries of that save are not there, and neither is what they are about: the
// function runs again, and records them. No phase is lost, whatever the last write was.
func TestEntriesOfTheDead(t *testing.T) {
	errDies := errors.New("the process has died")
	for n := range strings.Count(allRide, ",") + 1 {
		synctest.Test(t, func(t *testing.T) {
			s := newJoinedShop()
			s.log = new(turnlog.Memory)
			var left atomic.Int64
			left.Store(int64(n))
			s.around = func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
				write := slices.Contains(strings.Fields("Begin Save Append Settle Issue Finish Record"), c.Method)
				if left.Load() < 0 || write && left.Add(-1) < 0 {
					return errDies
				}
				return next(ctx)
			}
			in := Input{RequestID: "r", Text: "hello"}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := s.open(t, s.logging(nil), time.Hour).Execute(ctx, "s", in, nil)
			cancel()
			if err == nil && n < strings.Count(allRide, ",") {
				t.Errorf("%d writes, and no error", n)
			}
			left.Store(math.MaxInt64) // the stores work again
			time.Sleep(time.Minute)   // its lease is over
			bot := s.open(t, s.logging(nil), time.Hour)
			execute(t, bot, in)
			if _, err := bot.Recover(t.Context(), "s"); err != nil { // it may have settled, and not be logged
				t.Error(err)
			}
			got := s.logged(t)
			at := 0
			for phase := range strings.SplitSeq(allLogged, ", ") {
				i := strings.Index(got[at:], phase)
				if i < 0 {
					t.Fatalf("after %d writes the log has no %q: %s", n, phase, got)
				}
				at += i
			}
		})
	}
}
