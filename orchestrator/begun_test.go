package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A run that was begun with Force is finished without Force: Force had accepted the state with which the run began.
func TestBegunWithForce(t *testing.T) {
	forced := func(die func()) Def {
		d := renamed()
		d.Intents = Intents{"shout": {Run: func(_ context.Context, t *Turn) error {
			t.State.Said = append(t.State.Said, "loud")
			if die != nil {
				die()
			}
			return nil
		}}}
		return d
	}
	in := Input{Text: "b", RequestID: "r"}
	for name, finish := range map[string]func(*Bot) error{
		"Recover": func(bot *Bot) error { _, err := bot.Recover(t.Context(), "s"); return err },
		"Resume":  func(bot *Bot) error { _, err := bot.Resume(t.Context(), "s", nil); return err },
		"repeat":  func(bot *Bot) error { _, err := bot.Execute(t.Context(), "s", in, nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			execute(t, w.Start(t, echo(), Options{}), Input{Text: "a"})
			w.CrashWith(t, forced, in, &orchestrator.CallOptions{Force: true})
			bot := w.Start(t, forced(nil), Options{})
			if err := finish(bot); err != nil {
				t.Fatal(err)
			}
			res := execute(t, bot, in)
			wantSaid(t, res.State, "a", "loud")
			if !res.Replayed {
				t.Error("it was not finished")
			}
		})
	}
}

// Branches are merged with the state that they started from, also if the engine would not compute the same state again.
func TestBranchesKeepTheirBase(t *testing.T) {
	fan := func(die func()) Def {
		return Def{
			Name: "fan", Version: "2",
			Intents: Intents{
				"quick": {Run: func(_ context.Context, t *Turn) error { t.State.A = "quick"; return nil }},
				"slow": {Run: func(ctx context.Context, t *Turn) error {
					if die != nil {
						if err := branchSaved(ctx, t); err != nil {
							return err
						}
						die()
					}
					t.State.N++
					return nil
				}},
			},
		}
	}
	n := 0
	changed := map[string]func(*Def){
		"by Route": func(d *Def) {
			d.Route = func(_ context.Context, t *Turn) (Next, error) {
				t.State.N += 10
				return orchestrator.To("quick", "slow"), nil
			}
		},
		"by Migrate": func(d *Def) {
			d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("quick", "slow"), nil }
			d.Migrate = func(_ context.Context, cp checkpoint.Checkpoint) (s State, err error) {
				err = json.Unmarshal(cp.State, &s)
				n += 100
				s.N = n
				return s, err
			}
		},
	}
	for name, change := range changed {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			old := fan(nil)
			change(&old)
			old.Version, old.Migrate = "1", nil
			before := execute(t, w.Start(t, old, Options{}), Input{Text: "a"}).State.N
			watched = w.Snapshots
			crashing := func(die func()) Def {
				d := fan(die)
				change(&d)
				return d
			}
			n = 0
			w.Crash(t, crashing, Input{Text: "b"})
			res, err := w.Start(t, crashing(nil), Options{}).Resume(t.Context(), "s", nil)
			if err != nil {
				t.Fatal(err)
			}
			want := before + 11
			if name == "by Migrate" {
				want = 101
			}
			if res.State.A != "quick" || res.State.N != want {
				t.Errorf("%+v, want N %d", res.State, want)
			}
		})
	}
}

// White space in an input's JSON is not stored.
func TestSpaceIsNotStored(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{})
	data := json.RawMessage("[1" + strings.Repeat(" ", 1<<10) + "]")
	in := Input{Text: "a", RequestID: "r", Data: data}
	execute(t, bot, in)
	if got := string(execute(t, bot, in).Input.Data); got != "[1]" {
		t.Errorf("%d bytes of data", len(got))
	}
}

// If a store is slow, the session is not reported as busy.
func TestSlowClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range []lock.Locker{nil, new(lock.Memory)} {
			w := newWorld()
			w.Checkpoints = &slowClaims{Store: w.Checkpoints, time: 5 * time.Second}
			bot := w.Start(t, echo(), Options{Locker: l, Limits: orchestrator.Limits{LockWait: time.Second}})
			execute(t, bot, Input{Text: "a"})
		}
	})
}

// If a caller learns of another owner when its time is up, it does not wait once more.
func TestHeldTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		claims := &slowClaims{Store: w.Checkpoints, time: 5 * time.Second, refusal: lock.ErrHeld}
		w.Checkpoints = claims
		bot := w.Start(t, echo(), Options{Limits: orchestrator.Limits{
			LockWait:      4 * time.Second,
			SettleTimeout: 2 * time.Second,
		}})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, orchestrator.ErrBusy)
		if claims.n != 1 {
			t.Errorf("claimed %d times", claims.n)
		}
	})
}

// slowClaims takes its time to grant or to refuse. It ignores the end of ctx.
type slowClaims struct {
	checkpoint.Store
	time    time.Duration
	refusal error
	n       int
}

func (s *slowClaims) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	s.n++
	time.Sleep(s.time)
	if s.refusal != nil {
		return c, s.refusal
	}
	return s.Store.Claim(context.WithoutCancel(ctx), k, r)
}

// If a Locker hangs and returns an error of its own, the session is reported as busy.
func TestHungLocker(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	limits := orchestrator.Limits{LockWait: 10 * time.Millisecond, SettleTimeout: 10 * time.Millisecond}
	bot := w.Start(t, steps(nil), Options{Locker: new(hungLocker), Limits: limits})
	_, err := bot.Recover(t.Context(), "s")
	wantErr(t, err, orchestrator.ErrBusy)
}

type hungLocker struct{ lock.Memory }

func (*hungLocker) TryLock(ctx context.Context, _ string) (context.Context, func(), error) {
	<-ctx.Done()
	return nil, nil, errors.New("gave up")
}

// A subscriber that comes in the middle of a turn hears how long the turn took from its beginning.
func TestTookFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bot *Bot
		var took time.Duration
		d := echo()
		d.Intents = Intents{"echo": {Run: func(context.Context, *Turn) error {
			time.Sleep(time.Hour)
			bot.Subscribe(func(ev Event) {
				if ev.Kind == orchestrator.TurnSettled {
					took = ev.Took
				}
			})
			return nil
		}}}
		bot = newWorld().Start(t, d, Options{Limits: orchestrator.Limits{TurnTimeout: 2 * time.Hour}})
		execute(t, bot, Input{Text: "a"})
		if took != time.Hour {
			t.Errorf("took %v", took)
		}
	})
}

// If a turn leaves a context behind, the context keeps nothing of the session alive.
func TestContextsLeftBehind(t *testing.T) {
	const size = 1 << 20
	var left []context.Context
	d := Def{Name: "big", Intents: Intents{"work": {Run: func(ctx context.Context, t *Turn) error {
		left = append(left, context.WithoutCancel(ctx))
		t.State.A = strings.Repeat("x", size)
		return nil
	}}}}
	bot := newWorld().Start(t, d, Options{KeepSnapshots: 1})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	execute(t, bot, Input{Text: "a"})
	before := heap()
	for range 16 {
		execute(t, bot, Input{Text: "a"})
	}
	if more := heap() - before; more > 8*size {
		t.Errorf("%d contexts keep %d MiB", len(left), more>>20)
	}
	runtime.KeepAlive(left)
}
