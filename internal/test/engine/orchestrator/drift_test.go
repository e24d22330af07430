package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// renamed is echo after a deploy that renamed its intent.
func renamed() Def {
	d := echo()
	d.Intents = Intents{"shout": {Run: say("loud")}}
	return d
}

// Without Migrate or Force, the engine leaves a session of another definition alone.
func TestDrift(t *testing.T) {
	w := newWorld()
	old := w.start(t, echo(), Options{})
	execute(t, old, Input{Text: "a", RequestID: "r"})
	bot := w.start(t, renamed(), Options{})
	for name, in := range map[string]Input{"new": {Text: "b"}, "repeated": {Text: "a", RequestID: "r"}} {
		_, err := bot.Execute(t.Context(), "s", in, nil)
		if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		wantOp(t, err, "drift")
	}
	for _, err := range bot.Turns(t.Context(), "s") {
		if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok {
			t.Errorf("Turns: %v", err)
		}
	}
	res, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, &orchestrator.CallOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "a", "loud")
	wantSaid(t, execute(t, bot, Input{Text: "c"}).State, "a", "loud", "loud")
}

// migrate notes what it gets.
func migrate(_ context.Context, cp checkpoint.Checkpoint) (s State, err error) {
	err = json.Unmarshal(cp.State, &s)
	s.Said = append(s.Said, fmt.Sprintf("turn %d of version %q", cp.Turn, cp.Version))
	return s, err
}

// If signature or version differ, every stored state passes Migrate: newest row, run in flight, replay, owed reply,
// Turns.
func TestMigrate(t *testing.T) {
	w := newWorld()
	down := errors.New("down")
	d := echo()
	d.Version = "1"
	d.Deliver = func(context.Context, *Result) error { return down }
	execute(t, w.start(t, d, Options{}), Input{Text: "a", RequestID: "r"})

	var delivered []State
	d.Version, d.Migrate = "2", migrate
	d.Deliver = func(_ context.Context, r *Result) error { delivered = append(delivered, r.State); return nil }
	bot := w.start(t, d, Options{})
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
	w.crash(t, steps, Input{Text: "a"})
	d := steps(nil)
	d.Migrate = migrate
	d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("last"), nil }
	d.Intents = Intents{"one": d.Intents["three"], "last": {Run: say("last"), Next: orchestrator.End}}
	res, err := w.start(t, d, Options{}).Resume(t.Context(), "s", nil)
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
		execute(t, w.start(t, second(nil), Options{}), Input{Text: "a"})
		w.crash(t, second, Input{Text: "b"})
		d := second(nil)
		d.Version, d.Migrate = version, migrate
		res, err := w.start(t, d, Options{}).Resume(t.Context(), "s", nil)
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

// If a process does not know a run's definition, it leaves the run alone: it counts no attempt and writes nothing.
func TestForeignRun(t *testing.T) {
	w := newWorld()
	w.crash(t, steps, Input{Text: "a", RequestID: "r"})
	d := renamed()
	d.Name = "steps"
	bot := w.start(t, d, Options{})
	before := fmt.Sprint(wantRuns(t, bot, 1))
	calls := map[string]func() error{
		"other input": func() error { _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); return err },
		"own": func() error {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
			return err
		},
		"resume": func() error { _, err := bot.Resume(t.Context(), "s", nil); return err },
	}
	for name, call := range calls {
		if _, ok := errors.AsType[*orchestrator.DriftError](call()); !ok {
			t.Errorf("%s: no drift", name)
		}
	}
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "foreign" || err != nil {
		t.Errorf("%q, %v", outcome, err)
	}
	if after := fmt.Sprint(wantRuns(t, bot, 1)); after != before {
		t.Errorf("was %s\nis  %s", before, after)
	}
	wantSaid(t, execute(t, w.start(t, steps(nil), Options{}), Input{Text: "a", RequestID: "r"}).State, "a one", "a two",
		"a three")
}

// If Migrate fails, nothing is lost.
func TestMigrateFails(t *testing.T) {
	w := newWorld()
	w.crash(t, steps, Input{Text: "a"})
	boom := errors.New("boom")
	d := steps(nil)
	d.Version = "2"
	d.Migrate = func(context.Context, checkpoint.Checkpoint) (State, error) { return State{}, boom }
	_, err := w.start(t, d, Options{}).Resume(t.Context(), "s", nil)
	wantErr(t, err, boom, orchestrator.ErrIndeterminate)
	res, err := w.start(t, steps(nil), Options{}).Resume(t.Context(), "s", nil)
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
	watched = w.snapshots
	w.crash(t, fan, Input{})
	run := func(_ context.Context, t *orchestrator.Turn[newState]) error { t.State.A = 7; return nil }
	d := orchestrator.Definition[newState]{
		Name: "fan", Version: "2", Intents: orchestrator.Intents[newState]{"quick": {Run: run}, "slow": {Run: run}},
		Route: func(context.Context, *orchestrator.Turn[newState]) (Next, error) {
			return orchestrator.To("quick"), nil
		},
		Migrate: func(context.Context, checkpoint.Checkpoint) (s newState, err error) { return s, nil },
	}
	bot, err := orchestrator.New(d, w.checkpoints, &Options{Snapshots: w.snapshots, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := bot.Resume(t.Context(), "s", nil); err != nil || res.State.A != 7 {
		t.Errorf("%v, %v", res, err)
	}
}
