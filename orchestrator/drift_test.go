package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// renamed is echo after a deploy that renamed its intent.
func renamed() Def {
	d := echo()
	d.Intents = Intents{"shout": {Run: say("loud")}}
	return d
}

// Another definition of intents refuses no settled turn: nothing of it is lost.
func TestOtherIntents(t *testing.T) {
	w := newWorld()
	execute(t, w.Start(t, echo(), Options{}), Input{Text: "a", RequestID: "r"})
	bot := w.Start(t, renamed(), Options{})
	if res := execute(t, bot, Input{Text: "a", RequestID: "r"}); !res.Replayed {
		t.Error("the repeated request ran again")
	}
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", "loud")
	if got := turns(t, bot); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("turns %q", got)
	}
	wantSaid(t, execute(t, w.Start(t, echo(), Options{}), Input{Text: "c"}).State, "a", "loud", "c")
}

// A field of another type cannot be read. This is drift too, and the error says why.
func TestDriftOfType(t *testing.T) {
	type State struct {
		Said  []int
		Facts map[string]int
		A, B  string
		N     int
	}
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	run := func(context.Context, *orchestrator.Turn[State]) error { return nil }
	bot := bottest.StartAs(t, w, orchestrator.Definition[State]{
		Name: "steps", First: "one",
		Intents: orchestrator.Intents[State]{"one": {Run: run}, "two": {Run: run}},
	})
	before := fmt.Sprint(runsOf(t, bot))
	outcome, err := bot.Recover(t.Context(), "s")
	wantDrift(t, err, []string{"Said"}, nil)
	if _, typed := errors.AsType[*json.UnmarshalTypeError](err); outcome != "drift" || !typed {
		t.Errorf("%q, %v", outcome, err)
	}
	if after := fmt.Sprint(runsOf(t, bot)); after != before {
		t.Errorf("was %s\nis  %s", before, after)
	}
	_, err = bot.Execute(t.Context(), "s", Input{}, &orchestrator.CallOptions{Force: true})
	if err == nil {
		t.Error("Force reads what cannot be read")
	}
}

// runsOf returns the runs in flight.
func runsOf[S any](t testing.TB, bot *orchestrator.Orchestrator[S]) (all []snapshot.Run) {
	t.Helper()
	for r, err := range bot.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		r.Age = 0 // it grows
		all = append(all, r)
	}
	return all
}

// migrate notes what it gets.
func migrate(_ context.Context, cp checkpoint.Checkpoint) (s State, err error) {
	err = json.Unmarshal(cp.State, &s)
	s.Said = append(s.Said, fmt.Sprintf("turn %d of version %q", cp.Turn, cp.Version))
	return s, err
}

// If the version differs, every stored state passes Migrate: newest row, run in flight, replay, owed reply, Turns.
func TestMigrate(t *testing.T) {
	w := newWorld()
	down := errors.New("down")
	d := echo()
	d.Version = "1"
	d.Deliver = func(context.Context, *Result) error { return down }
	execute(t, w.Start(t, d, Options{}), Input{Text: "a", RequestID: "r"})

	var delivered []State
	d.Version, d.Migrate = "2", migrate
	d.Deliver = func(_ context.Context, r *Result) error { delivered = append(delivered, r.State); return nil }
	bot := w.Start(t, d, Options{})
	replay := execute(t, bot, Input{Text: "a", RequestID: "r"})
	wantSaid(t, replay.State, "a", `turn 0 of version "1"`)
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", `turn 0 of version "1"`, "b")
	wantSaid(t, delivered[0], "a", `turn 0 of version "1"`)
	var all []string
	for res, err := range bot.Turns(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(len(res.State.Said)))
	}
	if got := fmt.Sprint(all); got != "[3 2]" {
		t.Errorf("turns said %s words", got)
	}
}

// Migrate also gets the state of a run in flight. A decision for an intent that no longer exists is made anew.
func TestMigrateRun(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	d := steps(nil)
	d.Migrate = migrate
	d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("last"), nil }
	d.Intents = Intents{"one": d.Intents["three"], "last": {Run: say("last"), Next: orchestrator.End}}
	res, err := w.Start(t, d, Options{}).Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "a one", `turn 0 of version ""`, "last")
}

// A run that crashed in its first iteration goes on from the newest turn. The next version of the definition migrates
// it.
func TestBegunRun(t *testing.T) {
	second := func(die func()) Def {
		d := steps(die)
		d.First = "two"
		return d
	}
	for _, version := range []string{"", "2"} {
		w := newWorld()
		execute(t, w.Start(t, second(nil), Options{}), Input{Text: "a"})
		w.Crash(t, second, Input{Text: "b"})
		d := second(nil)
		d.Version, d.Migrate = version, migrate
		res, err := w.Start(t, d, Options{}).Resume(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		if version == "" {
			wantSaid(t, res.State, "a two", "a three", "b two", "b three")
		} else {
			wantSaid(t, res.State, "a two", "a three", `turn 0 of version ""`, "b two", "b three")
		}
	}
}

// In the same version, Migrate sees a state only if something of it would be lost.
func TestMigrateSeesDrift(t *testing.T) {
	w := newWorld()
	older, newer := lesser(), renamed()
	newer.Migrate = migrate
	seen := 0
	older.Migrate = func(ctx context.Context, cp checkpoint.Checkpoint) (lesserState, error) {
		seen++
		return orchestrator.Lenient[lesserState](ctx, cp)
	}
	before := bottest.StartAs(t, w, older)
	if _, err := before.Execute(t.Context(), "s", Input{Text: "a"}, nil); err != nil || seen != 0 {
		t.Errorf("migrated %d times, %v", seen, err)
	}
	bot := w.Start(t, newer, Options{})
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", "loud")
	res, err := bottest.StartAs(t, w, older).Execute(t.Context(), "s", Input{Text: "c"}, nil)
	if err != nil || seen != 1 || strings.Join(res.State.Said, " ") != "a loud c" {
		t.Errorf("migrated %d times: %v, %v", seen, res, err)
	}
}

// unrelated returns a definition that does not have the intents of steps.
func unrelated(set func(*Def)) Def {
	d := renamed()
	d.Name = "steps"
	set(&d)
	return d
}

// If a run has intents that a process does not have, the process leaves the run alone: it counts no attempt and writes
// nothing.
func TestDriftOfRun(t *testing.T) {
	missing := []string{"one", "two"} // what has run, and what follows
	for name, d := range map[string]Def{
		"without Migrate": unrelated(func(*Def) {}),
		"Strict":          unrelated(func(d *Def) { d.Migrate = orchestrator.Strict[State] }),
		"Strict for another version": unrelated(func(d *Def) {
			d.Version, d.Migrate = "2", orchestrator.Strict[State]
		}),
		"nothing decides anew": unrelated(func(d *Def) {
			d.Migrate = migrate
			d.Iterate, d.First = true, "shout"
			d.Intents = Intents{
				"shout":   {Run: say("loud"), Next: orchestrator.To("whisper")},
				"whisper": {Run: say("low"), Next: orchestrator.End},
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
			bot := w.Start(t, d, Options{})
			before := fmt.Sprint(wantRuns(t, bot, 1))
			calls := map[string]func() error{
				"other input": func() error { _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); return err },
				"own": func() error {
					_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
					return err
				},
				"resume": func() error { _, err := bot.Resume(t.Context(), "s", nil); return err },
				"recover": func() error {
					outcome, err := bot.Recover(t.Context(), "s")
					if outcome != "drift" {
						t.Errorf("outcome %q", outcome)
					}
					return err
				},
			}
			for name, call := range calls {
				t.Log(name)
				wantDrift(t, call(), nil, missing)
			}
			if after := fmt.Sprint(wantRuns(t, bot, 1)); after != before {
				t.Errorf("was %s\nis  %s", before, after)
			}
			wantSaid(t, execute(t, w.Start(t, steps(nil), Options{}), Input{Text: "a", RequestID: "r"}).State,
				"a one", "a two", "a three")
		})
	}
}

// A run whose state or newest turn has members that a process would lose is left alone too.
func TestDriftOfRunState(t *testing.T) {
	for name, begin := range map[string]func(*Def){
		"state of the newest turn": func(*Def) {},
		"state of the run":         func(d *Def) { d.Begin = func(context.Context, *Turn) error { return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			execute(t, w.Start(t, echo(), Options{}), Input{Text: "a"})
			dying := func(die func()) Def {
				d := echo()
				begin(&d)
				if die != nil {
					d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
				}
				return d
			}
			w.Crash(t, dying, Input{Text: "b", RequestID: "r"})
			older := bottest.StartAs(t, w, lesser())
			before := fmt.Sprint(runsOf(t, older))
			for range 10 {
				outcome, err := older.Recover(t.Context(), "s")
				wantDrift(t, err, []string{"N"}, nil)
				if outcome != "drift" {
					t.Errorf("outcome %q", outcome)
				}
			}
			if after := fmt.Sprint(runsOf(t, older)); after != before {
				t.Errorf("was %s\nis  %s", before, after)
			}
			wantSaid(t, execute(t, w.Start(t, dying(nil), Options{}), Input{Text: "b", RequestID: "r"}).State, "a", "b")
		})
	}
}

// A process that would lose something of an owed turn leaves the delivery to others, and counts no failure.
func TestDriftOfOwed(t *testing.T) {
	w := newWorld()
	down := errors.New("down")
	d := echo()
	d.Deliver = func(context.Context, *Result) error { return down }
	owing := w.Start(t, d, Options{})
	execute(t, owing, Input{Text: "a"})
	older := lesser()
	older.Deliver = func(context.Context, *orchestrator.Result[lesserState]) error { return nil }
	bot := bottest.StartAs(t, w, older)
	key := checkpoint.Key{Orchestrator: "echo", Session: "s"}
	failed := func() int {
		c, err := seize(t.Context(), w.Checkpoints, key, "another", time.Minute)
		if err == nil {
			err = w.Checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		return c.Failed
	}
	before := failed()
	for range 10 {
		_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
		wantDrift(t, err, []string{"N"}, nil)
	}
	if after := failed(); after != before {
		t.Errorf("%d failures, and %d before", after, before)
	}
	var got []string
	d.Deliver = func(_ context.Context, r *Result) error { got = append(got, r.Input.Text); return nil }
	execute(t, w.Start(t, d, Options{}), Input{Text: "b"})
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("delivered %q", got)
	}
}

// A drain of a process that would lose something of an owed turn says so.
func TestDrainOfOwedDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := echo()
		d.Deliver = func(context.Context, *Result) error { return errors.New("down") }
		execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
		time.Sleep(time.Minute)
		older := lesser()
		older.Deliver = func(context.Context, *orchestrator.Result[lesserState]) error { return nil }
		outcome, err := bottest.StartAs(t, w, older).Recover(t.Context(), "s")
		wantDrift(t, err, []string{"N"}, nil)
		if outcome != "drift" {
			t.Errorf("outcome %q", outcome)
		}
	})
}

// If Migrate fails, nothing is lost.
func TestMigrateFails(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	boom := errors.New("boom")
	d := steps(nil)
	d.Version = "2"
	d.Migrate = func(context.Context, checkpoint.Checkpoint) (State, error) { return State{}, boom }
	_, err := w.Start(t, d, Options{}).Resume(t.Context(), "s", nil)
	wantErr(t, err, boom, orchestrator.ErrIndeterminate)
	res, err := w.Start(t, steps(nil), Options{}).Resume(t.Context(), "s", nil)
	if err != nil || len(res.Steps) != 3 {
		t.Errorf("%v, %v", res, err)
	}
}

type newState struct{ A int } // was a string before

// If a state is migrated, saved branches of the old state are dropped.
func TestMigrateFanOut(t *testing.T) {
	fan := func(die func()) Def {
		return Def{Name: "fan", Version: "1", Intents: Intents{
			"quick": {Run: func(_ context.Context, t *Turn) error { t.State.A = "quick"; return nil }},
			"slow": {Run: func(ctx context.Context, t *Turn) error {
				if err := branchSaved(ctx, t); err != nil {
					return err
				}
				die()
				return nil
			}},
		}, Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("quick", "slow"), nil }}
	}
	w := newWorld()
	watched = w.Snapshots
	w.Crash(t, fan, Input{})
	run := func(_ context.Context, t *orchestrator.Turn[newState]) error { t.State.A = 7; return nil }
	d := orchestrator.Definition[newState]{
		Name: "fan", Version: "2", Intents: orchestrator.Intents[newState]{"quick": {Run: run}, "slow": {Run: run}},
		Route: func(context.Context, *orchestrator.Turn[newState]) (Next, error) {
			return orchestrator.To("quick"), nil
		},
		Migrate: func(context.Context, checkpoint.Checkpoint) (s newState, err error) { return s, nil },
	}
	bot, err := orchestrator.New(d, w.Checkpoints, &Options{Snapshots: w.Snapshots, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := bot.Resume(t.Context(), "s", nil); err != nil || res.State.A != 7 {
		t.Errorf("%v, %v", res, err)
	}
}
