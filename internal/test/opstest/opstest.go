// Package opstest holds package ops to what it says, on the stores of any database, beside bots at work.
package opstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// A bench is one service: its stores, and a room over them.
type bench struct {
	bottest.Shop
	stores ops.Stores
	room   *ops.Room
	log    *bottest.LockedBuffer
}

// Run runs all checks. open returns the stores of an empty database each time.
func Run(t *testing.T, open func(t *testing.T) ops.Stores) {
	for name, check := range map[string]func(t *testing.T, b *bench){
		"looks":     looks,
		"unpark":    unpark,
		"abandon":   abandon,
		"beside":    beside,
		"drain":     drain,
		"delete":    remove,
		"held":      held,
		"effects":   effects,
		"unknown":   unknown,
		"processes": processes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{stores: open(t), log: new(bottest.LockedBuffer)}
			b.World, b.Ledger = bottest.WorldOf(b.stores.Checkpoints, b.stores.Snapshots), b.stores.Ledger
			b.Vendor = new(bottest.Vendor)
			b.room = ops.New(b.stores, &ops.Options{
				Wait: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
			})
			t.Cleanup(func() {
				if err := b.room.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			check(t, b)
		})
	}
}

// stuck is the session in which bottest parks a run.
var stuck = store.Key{Orchestrator: "steps", Session: "s"}

// park leaves a parked run in stuck, and returns a process of its bot.
func (b *bench) park(t *testing.T) *bottest.Bot {
	t.Helper()
	bot := b.World.Start(t, bottest.Steps(nil), bottest.Once1)
	b.Park(t, bot)
	return bot
}

// runs returns the runs that a query selects, as text.
func (b *bench) runs(t *testing.T, q ops.RunQuery) (all []string) {
	t.Helper()
	for r, err := range b.room.Runs(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Orchestrator+"/"+r.Session+" "+r.State())
		if r.Payload != nil {
			t.Errorf("a listing has read the payload of %s", r.Session)
		}
	}
	return all
}

func want[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// why returns how a session stands.
func (b *bench) why(t *testing.T, k store.Key) ops.Why {
	t.Helper()
	w, err := b.room.Why(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func looks(t *testing.T, b *bench) {
	b.park(t)
	echo := b.World.Start(t, bottest.Echo(), bottest.Options{})
	for _, session := range []string{"a", "b", "s"} {
		if _, err := echo.Execute(t.Context(), session, bottest.Input{Text: "x"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	d := bottest.Echo()
	d.Intents["echo"] = bottest.Intent{Run: func(ctx context.Context, _ *bottest.Turn) error {
		leave()
		return ctx.Err()
	}}
	if _, err := b.World.Start(t, d, bottest.Options{}).Execute(ctx, "b", bottest.Input{Text: "y"}, nil); err == nil {
		t.Fatal("the run is not left")
	}
	names, err := b.room.Bots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.stores.Ledger != nil || len(names) > 1 { // on Redis a bot has a name once it has settled
		want(t, "bots", names, "echo", "steps")
	}
	want(t, "runs", append(b.runs(t, ops.RunQuery{Bot: "echo"}), b.runs(t, ops.RunQuery{Bot: "steps"})...),
		"echo/b waiting", "steps/s parked")
	want(t, "parked", b.runs(t, ops.RunQuery{Bot: "steps", Status: snapshot.Parked, Limit: 1}), "steps/s parked")
	want(t, "behind", b.runs(t, ops.RunQuery{Bot: "echo", After: "b"}))

	w := b.why(t, stuck)
	if w.State != "parked" || len(w.Do) != 3 || w.Do[0].Act != ops.Unpark || len(w.Says) == 0 {
		t.Errorf("why: %+v", w)
	}
	w = b.why(t, store.Key{Orchestrator: "echo", Session: "a"})
	if w.State != "idle" || w.Turn != 0 || len(w.Do) != 0 {
		t.Errorf("why: %+v", w)
	}
	if b.log.String() != "" {
		t.Errorf("a look has logged %s", b.log)
	}
}

// Unpark and MakeDue say who did it, once each, and the drain goes on.
func unpark(t *testing.T, b *bench) {
	bot := b.park(t)
	for _, done := range []bool{true, false} {
		if got, err := b.room.Unpark(t.Context(), "ann", stuck); got != done || err != nil {
			t.Errorf("unparked %t, %v", got, err)
		}
	}
	if n := strings.Count(b.log.String(), "act=unpark by=ann"); n != 2 {
		t.Errorf("%d lines of acts in %s", n, b.log)
	}
	if got, err := b.room.MakeDue(t.Context(), "ann", stuck); !got || err != nil {
		t.Errorf("made due %t, %v", got, err)
	}
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("%s, %v", outcome, err)
	}
	if _, err := b.room.Unpark(t.Context(), "", stuck); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without an actor: %v", err)
	}
}

func abandon(t *testing.T, b *bench) {
	bot := b.park(t)
	run := bottest.WantRuns(t, bot, 1)[0]
	for _, id := range []string{"another", run.ID} {
		if done, err := b.room.Abandon(t.Context(), "ann", stuck, id); done != (id == run.ID) || err != nil {
			t.Errorf("abandoned %t, %v", done, err)
		}
	}
	bottest.WantRuns(t, bot, 0)
}

// Beside a process at work, a run is settled or abandoned, and both sides are told the same.
func beside(t *testing.T, b *bench) {
	for round := range 8 {
		bot := b.World.Start(t, bottest.Echo(), bottest.Options{})
		k := store.Key{Orchestrator: "echo", Session: fmt.Sprint(round)}
		var work sync.WaitGroup
		var settled, ended atomic.Int64
		began := make(chan struct{})
		work.Go(func() {
			close(began)
			_, err := bot.Execute(t.Context(), k.Session, bottest.Input{Text: "x"}, nil)
			switch {
			case err == nil:
				settled.Add(1)
			case !errors.Is(err, orchestrator.ErrAbandoned) && !errors.Is(err, orchestrator.ErrIndeterminate):
				t.Error(err)
			}
		})
		<-began
		for by := range 2 {
			work.Go(func() {
				for range 10 {
					done, err := b.room.Abandon(t.Context(), fmt.Sprint(by), k, "")
					switch {
					case done:
						ended.Add(1)
					case err != nil && !errors.Is(err, ops.ErrNotFound) && !errors.Is(err, lock.ErrFenced):
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		st, err := bot.Inspect(t.Context(), k.Session)
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(st.Turn + 1); settled.Load() > n || ended.Load()+n > 1 || st.Run != nil && ended.Load() > 0 {
			t.Errorf("%d settled of %d told, %d ended, in flight %v", n, settled.Load(), ended.Load(), st.Run)
		}
	}
}

// Beside a drain, people unpark, hurry and abandon one run: one of them unparks it, and it settles once, or has ended.
func drain(t *testing.T, b *bench) {
	for round := range 4 {
		bot := b.World.Start(t, bottest.Steps(nil), bottest.Once1)
		b.World.Crash(t, bottest.DiesAtOnce, bottest.Input{Text: "a", RequestID: fmt.Sprint(round)})
		bottest.WantParked(t, bot)
		before, err := bot.Inspect(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		var unparked, ended, settled atomic.Int64
		var work sync.WaitGroup
		for by := range 2 {
			work.Go(func() { count(t, &unparked)(b.room.Unpark(t.Context(), fmt.Sprint(by), stuck)) })
			work.Go(func() { count(t, new(atomic.Int64))(b.room.MakeDue(t.Context(), fmt.Sprint(by), stuck)) })
			if round%2 == 1 {
				work.Go(func() { count(t, &ended)(b.room.Abandon(t.Context(), fmt.Sprint(by), stuck, before.Run.ID)) })
			}
			work.Go(func() {
				for range 20 {
					if outcome, err := bot.Recover(t.Context(), "s"); err == nil && outcome == "settled" {
						settled.Add(1)
					}
				}
			})
		}
		work.Wait()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			outcome, err := bot.Recover(t.Context(), "s")
			if err == nil && outcome == "settled" {
				settled.Add(1)
			}
			if st, err := bot.Inspect(t.Context(), "s"); err == nil && st.Run == nil {
				break
			}
		}
		after, err := bot.Inspect(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		turns := int64(after.Turn - before.Turn)
		if after.Run != nil || turns+ended.Load() != 1 || settled.Load() > turns || unparked.Load() > 1 {
			t.Fatalf("round %d: %d turns, %d settled, %d ended, %d unparked, in flight %+v",
				round, turns, settled.Load(), ended.Load(), unparked.Load(), after.Run)
		}
	}
}

// count returns what counts an act that was done. Another person may have been first, and the session may be busy.
func count(t *testing.T, n *atomic.Int64) func(done bool, err error) {
	return func(done bool, err error) {
		switch {
		case done:
			n.Add(1)
		case err != nil && !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrFenced) &&
			!errors.Is(err, orchestrator.ErrBusy) && !errors.Is(err, orchestrator.ErrAbandoned) &&
			!errors.Is(err, ops.ErrNotFound):
			t.Error(err)
		}
	}
}

func remove(t *testing.T, b *bench) {
	bot := b.park(t)
	if done, err := b.room.Delete(t.Context(), "ann", stuck); !done || err != nil {
		t.Errorf("deleted %t, %v", done, err)
	}
	bottest.WantRuns(t, bot, 0)
	if _, err := b.room.Delete(t.Context(), "ann", stuck); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
}

// An act that needs the session says who has it. Abandon works all the same.
func held(t *testing.T, b *bench) {
	d, started := bottest.Hanging()
	bot := b.World.Start(t, d, bottest.Options{})
	k := store.Key{Orchestrator: bot.Name(), Session: "s"}
	told := make(chan error, 1)
	go func() {
		_, err := bot.Execute(t.Context(), "s", bottest.Input{Text: "x"}, nil)
		told <- err
	}()
	<-started
	want(t, "runs", b.runs(t, ops.RunQuery{Bot: k.Orchestrator}), k.Orchestrator+"/s running")
	if w := b.why(t, k); w.State != "running" || w.Owner == "" || w.Do[0].Act != ops.Stop {
		t.Errorf("why: %+v", w)
	}
	if done, err := b.room.Unpark(t.Context(), "ann", k); done || err != nil {
		t.Errorf("unparked %t, %v", done, err)
	}
	_, err := b.room.SkipDelivery(t.Context(), "ann", k, "some")
	if h, ok := errors.AsType[*ops.HeldError](err); !ok || h.Owner == "" || !errors.Is(err, lock.ErrHeld) {
		t.Errorf("got %v, want a *HeldError", err)
	}
	if done, err := b.room.Abandon(t.Context(), "ann", k, ""); !done || err != nil {
		t.Errorf("abandoned %t, %v", done, err)
	}
	if err := <-told; err == nil {
		t.Error("the owner has settled")
	}
}

// Two people answer at once: one is taken, and the run goes on.
func effects(t *testing.T, b *bench) {
	if b.stores.Ledger == nil {
		for _, err := range b.room.Effects(t.Context(), ledger.Query{Open: true}) {
			if !errors.Is(err, ops.ErrNoStore) {
				t.Errorf("got %v, want ErrNoStore", err)
			}
		}
		return
	}
	ask := orchestrator.OnceOptions[string]{Class: ledger.Ask}
	b.Crash(t, func(die func()) bottest.Def { return bottest.Single(b.Refunds(ask, die)) },
		bottest.Input{Text: "A-1042", RequestID: "r"})
	bot := b.Start(t, bottest.Single(b.Refunds(ask, func() {})), bottest.Options{})
	k := store.Key{Orchestrator: bot.Name(), Session: "s"}
	_, err := bot.Resume(t.Context(), "s", nil)
	bottest.WantDoubt(t, err, true)
	w := b.why(t, k)
	if w.State != "suspended" || len(w.Effects) != 1 || w.Do[0].Act != ops.AnswerEffect {
		t.Fatalf("why: %+v", w)
	}
	var taken, refused atomic.Int64
	var people sync.WaitGroup
	for by := range 4 {
		people.Go(func() {
			done, err := b.room.AnswerEffect(t.Context(), fmt.Sprint("person ", by), w.Effects[0].ID,
				ledger.Answer{Landed: true, Result: []byte(`"receipt"`)})
			switch {
			case done:
				taken.Add(1)
			case errors.Is(err, ledger.ErrAnswered):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	people.Wait()
	if taken.Load() != 1 || refused.Load() != 3 {
		t.Errorf("%d taken, %d refused", taken.Load(), refused.Load())
	}
	if _, err := bot.Resume(t.Context(), "s", nil); err != nil || b.Vendor.Count() != 1 {
		t.Errorf("paid %d times, %v", b.Vendor.Count(), err)
	}
	if e := b.Effect(t); !strings.HasPrefix(e.AnsweredBy, "person") {
		t.Errorf("answered by %q", e.AnsweredBy)
	}
	_, err = b.room.AnswerEffect(t.Context(), "ann", "none", ledger.Answer{})
	if !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// What is not there is told as such, and nothing is written.
func unknown(t *testing.T, b *bench) {
	k := store.Key{Orchestrator: "nobody", Session: "none"}
	_, why := b.room.Why(t.Context(), k)
	_, unparked := b.room.Unpark(t.Context(), "ann", k)
	_, ended := b.room.Abandon(t.Context(), "ann", k, "")
	_, deleted := b.room.Delete(t.Context(), "ann", k)
	_, found := b.room.Find(t.Context(), k.Session)
	for i, err := range []error{why, unparked, ended, deleted, found} {
		if !errors.Is(err, ops.ErrNotFound) {
			t.Errorf("%d: got %v, want ErrNotFound", i, err)
		}
	}
	if names, err := b.room.Bots(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("bots %q, %v", names, err)
	}
}

// A process at work is alive, and owns its session.
func processes(t *testing.T, b *bench) {
	echo := b.World.Start(t, bottest.Echo(), bottest.Options{})
	d, started := bottest.Hanging()
	if _, err := echo.Execute(t.Context(), "before", bottest.Input{Text: "quick"}, nil); err != nil {
		t.Fatal(err)
	}
	bot := b.World.Start(t, d, bottest.Options{})
	if _, err := bot.Execute(t.Context(), "first", bottest.Input{Text: "quick"}, nil); err != nil {
		t.Fatal(err)
	}
	go bot.Execute(t.Context(), "s", bottest.Input{Text: "x"}, nil) //nolint:errcheck // it is abandoned
	<-started
	k := store.Key{Orchestrator: bot.Name(), Session: "s"}
	for end := time.Now().Add(time.Minute); ; {
		all, err := b.room.Processes(t.Context(), 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(p ops.Process) bool { return slices.Contains(p.Sessions, k) })
		if i >= 0 && all[i].Alive {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("processes: %+v", all)
		}
	}
	if _, err := b.room.Abandon(t.Context(), "ann", k, ""); err != nil {
		t.Error(err)
	}
}
