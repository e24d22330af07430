package orchestrator_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// What a fan-out saves, and how a resume uses it. The branches sleep. Under synctest, a branch ends when all effects of
// the earlier branch are over.

// ticks is a bot whose branches take a second, two seconds, and so on. A branch calls body when it is about to end.
func ticks(names []string, body func(name string, t *Turn) error) Def {
	d := Def{Name: "ticks", Intents: make(Intents)}
	for i, name := range names {
		d.Intents[name] = Intent{Run: func(ctx context.Context, t *Turn) error {
			select {
			case <-time.After(time.Duration(i+1) * time.Second):
				return body(name, t)
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	}
	d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To(names...), nil }
	return d
}

// dying ends the process in a branch.
func dying(at string, die func()) func(string, *Turn) error {
	return func(name string, t *Turn) error {
		if name == at && die != nil {
			die()
			return errDead
		}
		return mark(name, t)
	}
}

// mark notes in the state that a or b has run.
func mark(name string, t *Turn) error {
	switch name {
	case "a":
		t.State.A += name
	case "b":
		t.State.B += name
	}
	return nil
}

// The last branch to finish is saved too when the turn is left.
func TestLastBranchIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		there := make(chan struct{})
		bot := w.Start(t, fork(func(_ context.Context, name string, _ *Turn) error {
			if name == "b" {
				<-there
				cancel()
				return context.Canceled
			}
			close(there)
			time.Sleep(time.Second)
			return nil
		}), Options{})
		_, err := bot.Execute(ctx, "s", Input{Text: "x", RequestID: "r"}, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
		other := w.Start(t, fork(func(_ context.Context, name string, _ *Turn) error {
			if name == "a" {
				t.Error("a runs again")
			}
			return nil
		}), Options{})
		if res := execute(t, other, Input{Text: "x", RequestID: "r"}); res.State.A+res.State.B != "ab" {
			t.Errorf("state %+v", res.State)
		}
	})
}

// What a branch has used is saved with it.
func TestUsageOfSavedBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		fan := func(die func()) Def {
			return ticks([]string{"a", "b"}, func(name string, t *Turn) error {
				if name == "a" || die == nil {
					t.AddUsage(orchestrator.Usage{Input: 1})
				}
				return dying("b", die)(name, t)
			})
		}
		w.Crash(t, fan, Input{Text: "x"})
		res, err := w.Start(t, fan(nil), Options{}).Resume(t.Context(), "s", nil)
		if err != nil || res.Usage.Input != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A branch that has finished is progress: earlier attempts no longer count, also if the turn is left then.
func TestFinishedBranchIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := newWorld().Start(t, ticks([]string{"a", "b"}, mark), Options{})
		left := func(patience time.Duration) snapshot.Run {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := bot.Execute(ctx, "s", Input{Text: "x", RequestID: "r"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate, context.DeadlineExceeded)
			return wantRuns(t, bot, 1)[0]
		}
		for n := range 3 {
			if run := left(time.Second / 2); run.Attempt != n+1 {
				t.Errorf("attempt %d, want %d", run.Attempt, n+1)
			}
		}
		if run := left(3 * time.Second / 2); run.Attempt != 0 {
			t.Errorf("attempt %d after a branch has finished", run.Attempt)
		}
	})
}

// parcels is a snapshot store that notes the parts of each save.
type parcels struct {
	snapshot.Store
	mu    sync.Mutex // protects following fields
	parts []string
	saves int
}

func (l *parcels) Save(ctx context.Context, r snapshot.Run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saves++
	for name := range r.Parts {
		l.parts = append(l.parts, name)
	}
	return l.Store.Save(ctx, r)
}

// A fan-out of n branches costs n-1 saves. Each of its parts is written once, also if two processes write them.
func TestPartsAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &parcels{Store: new(snapshot.Memory)}
		w := worldOf(new(checkpoint.Memory), l)
		fan := func(die func()) Def { return ticks([]string{"a", "b", "c", "d", "e"}, dying("c", die)) }
		w.Crash(t, fan, Input{Text: "x"})
		res, err := w.Start(t, fan(nil), Options{}).Resume(t.Context(), "s", nil)
		if err != nil || res.State.A != "a" || res.State.B != "b" {
			t.Fatalf("%+v, %v", res, err)
		}
		slices.Sort(l.parts)
		want := []string{"branch 0", "branch 1", "branch 2", "branch 3", "fan"}
		if !slices.Equal(l.parts, want) || l.saves != 4 {
			t.Errorf("%d saves, of %q, want %q", l.saves, l.parts, want)
		}
	})
}

// renamedState is State with another name for one field. The definition has the same version.
type renamedState struct {
	Said  []string
	Facts map[string]int
	Alpha string
	B     string
	N     int
}

// A saved branch has changed a field that the state no longer has. That is drift, which shows only when the run is
// adopted. The run is left, the attempt does not count, and the next drain need not adopt the run to know. With Migrate
// the branch runs again.
func TestBranchOfARenamedField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Crash(t, func(die func()) Def { return ticks([]string{"a", "b"}, dying("b", die)) }, Input{Text: "x"})
		branch := func(set func(*renamedState)) orchestrator.Intent[renamedState] {
			return orchestrator.Intent[renamedState]{Run: func(_ context.Context,
				t *orchestrator.Turn[renamedState],
			) error {
				set(&t.State)
				return nil
			}}
		}
		d := orchestrator.Definition[renamedState]{Name: "ticks", Intents: orchestrator.Intents[renamedState]{
			"a": branch(func(s *renamedState) { s.Alpha = "again" }),
			"b": branch(func(s *renamedState) { s.B = "b" }),
		}, Route: func(context.Context, *orchestrator.Turn[renamedState]) (Next, error) {
			return orchestrator.To("a", "b"), nil
		}}
		bot := bottest.StartAs(t, w, d)
		before := runsOf(t, bot)[0]
		for range 3 {
			outcome, err := bot.Recover(t.Context(), "s")
			wantDrift(t, err, []string{"A"}, nil)
			if outcome != "drift" {
				t.Errorf("outcome %q", outcome)
			}
		}
		after := runsOf(t, bot)[0]
		if after.Attempt != before.Attempt || after.Seq != before.Seq+1 || after.Status != snapshot.Waiting {
			t.Errorf("was %+v\nis  %+v", before, after)
		}
		d.Migrate = orchestrator.Lenient[renamedState]
		res, err := bottest.StartAs(t, w, d).Resume(t.Context(), "s", nil)
		if err != nil || res.State.Alpha != "again" || res.State.B != "b" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A process goes on with the fan-out of another definition, if it loses nothing of it.
func TestBranchOfAnotherDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Crash(t, func(die func()) Def { return ticks([]string{"a", "b"}, dying("b", die)) }, Input{Text: "x"})
		d := ticks([]string{"a", "b"}, func(name string, turn *Turn) error {
			if name == "a" {
				t.Error("a runs again")
			}
			return mark(name, turn)
		})
		d.Intents["more"] = Intent{Run: say("more")}
		d.Version = "2"
		res, err := w.Start(t, d, Options{}).Resume(t.Context(), "s", nil)
		if err != nil || res.State.A != "a" || res.State.B != "b" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A branch that is no intent of this process is drift.
func TestStrangeBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		crashed := func(die func()) Def { return ticks([]string{"a", "b"}, dying("b", die)) }
		w.Crash(t, crashed, Input{Text: "x"})
		d := ticks([]string{"a", "c"}, mark)
		outcome, err := w.Start(t, d, Options{}).Recover(t.Context(), "s")
		wantDrift(t, err, nil, []string{"b"})
		if outcome != "drift" {
			t.Errorf("outcome %q", outcome)
		}
		outcome, err = w.Start(t, crashed(nil), Options{}).Recover(t.Context(), "s")
		if outcome != "settled" || err != nil {
			t.Errorf("%q, %v", outcome, err)
		}
	})
}

// Two versions of a definition list the same branches in another order. A branch that the first version saved in a
// place does not count as the branch that the second version has in that place.
func TestBranchOfAnotherDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		version := func(v string, names []string, die func()) Def {
			d := ticks([]string{"b", "a"}, dying("a", die))
			d.Version = v
			d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To(names...), nil }
			return d
		}
		in := Input{Text: "x", RequestID: "r"}
		w.Crash(t, func(die func()) Def { return version("1", []string{"a", "b"}, die) }, in)
		w.Crash(t, func(die func()) Def { return version("2", []string{"b", "a"}, die) }, in)
		res := execute(t, w.Start(t, version("1", []string{"a", "b"}, nil), Options{}), in)
		if res.State.A != "a" || res.State.B != "b" {
			t.Errorf("%+v", res.State)
		}
	})
}

// A state of some MiB has a document of its own. A resume finds it there.
func TestLargeStateIsResumed(t *testing.T) {
	const size = 2 << 20
	w := newWorld()
	d := func(die func()) Def {
		return Def{Name: "large", Iterate: true, First: "grow", Intents: Intents{
			"grow": {Next: orchestrator.To("end"), Run: func(_ context.Context, t *Turn) error {
				t.State.A = strings.Repeat("x", size)
				return nil
			}},
			"end": {Next: orchestrator.End, Run: func(_ context.Context, t *Turn) error {
				if die != nil {
					die()
				}
				return nil
			}},
		}}
	}
	w.Crash(t, d, Input{Text: "a"})
	res, err := w.Start(t, d(nil), Options{}).Resume(t.Context(), "s", nil)
	if err != nil || len(res.State.A) != size {
		t.Errorf("%v", err)
	}
}

// wordState is State with a word in place of the number.
type wordState struct{ A, B, N string }

// A branch of a newer version is saved, although the newest turn has an older state that the newer version cannot read.
func TestBranchBesideAnOlderTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		old := func(die func()) Def { return ticks([]string{"a", "b"}, dying("a", die)) }
		execute(t, w.Start(t, old(nil), Options{}), Input{Text: "x"})
		w.Crash(t, old, Input{Text: "y"})
		branch := func(takes time.Duration, set func(*wordState)) orchestrator.Intent[wordState] {
			return orchestrator.Intent[wordState]{Run: func(_ context.Context, t *orchestrator.Turn[wordState]) error {
				time.Sleep(takes)
				set(&t.State)
				return nil
			}}
		}
		d := orchestrator.Definition[wordState]{
			Name: "ticks", Version: "2", Intents: orchestrator.Intents[wordState]{
				"a": branch(0, func(s *wordState) { s.A += "2" }),
				"b": branch(time.Second, func(s *wordState) { s.B += "2" }),
			},
			Route: func(context.Context, *orchestrator.Turn[wordState]) (Next, error) {
				return orchestrator.To("a", "b"), nil
			},
			Migrate: func(_ context.Context, cp checkpoint.Checkpoint) (wordState, error) {
				var before State
				err := json.Unmarshal(cp.State, &before)
				return wordState{A: before.A, B: before.B, N: "none"}, err
			},
		}
		bot, err := orchestrator.New(d, w.Checkpoints, &Options{Snapshots: w.Snapshots, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		res, err := bot.Resume(t.Context(), "s", nil)
		if err != nil || res.State != (wordState{"a2", "b2", "none"}) {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
