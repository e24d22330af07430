package orchestrator_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// reworked is steps after a deploy that has removed all its intents at once. Migrate accepts what version "" wrote, and
// refuses what it does not know.
func reworked(die func()) Def {
	return Def{
		Name: "steps", Version: "2",
		Intents: Intents{"last": {Run: func(_ context.Context, t *Turn) error {
			t.State.Said = append(t.State.Said, "last")
			if die != nil {
				die()
			}
			return nil
		}}},
		Migrate: func(ctx context.Context, cp checkpoint.Checkpoint) (s State, err error) {
			if cp.Version == "" {
				err = json.Unmarshal(cp.State, &s)
				return s, err
			}
			return orchestrator.Strict[State](ctx, cp)
		},
	}
}

// A deploy has removed the intents of a run, and its Migrate has accepted the run. Its process dies. The next process
// of the same deploy goes on: the run is its own.
func TestMigratedRunIsTakenUp(t *testing.T) {
	w, in := newWorld(), Input{Text: "a", RequestID: "r"}
	w.Crash(t, steps, in)
	w.Crash(t, reworked, in)
	wantSaid(t, execute(t, w.Start(t, reworked(nil), Options{}), in).State, "a one", "last")
}

// An operator has forced a run past its drift. Its process dies, and the next one of the same deploy goes on.
func TestForcedRunIsTakenUp(t *testing.T) {
	forced := func(die func()) Def {
		d := reworked(die)
		d.Version, d.Migrate = "", nil
		return d
	}
	w, in := newWorld(), Input{Text: "a", RequestID: "r"}
	w.Crash(t, steps, in)
	w.CrashWith(t, forced, in, &orchestrator.CallOptions{Force: true})
	wantSaid(t, execute(t, w.Start(t, forced(nil), Options{}), in).State, "a one", "last")
}

// counted is a fan-out whose first branch sets a field that lesser processes do not have.
func counted(die func()) Def {
	return Def{
		Name: "counted",
		Intents: Intents{"count": {Run: func(_ context.Context, t *Turn) error {
			switch {
			case t.ItemNumber == 1:
				t.State.N++
			case die != nil:
				die()
				return errDead
			default:
				t.State.A = "done"
			}
			return nil
		}}},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.ForEach("count", 1, 2), nil },
	}
}

// A newer process dies in a fan-out. What its finished branch has done has a member that an older process lacks. Strict
// refuses that as a process without Migrate does, and the newer process goes on.
func TestStrictRefusesBranches(t *testing.T) {
	for name, set := range map[string]func(*lesserDef){
		"without Migrate":            func(*lesserDef) {},
		"Strict":                     func(d *lesserDef) { d.Migrate = orchestrator.Strict[lesserState] },
		"Strict for another version": func(d *lesserDef) { d.Version, d.Migrate = "0", orchestrator.Strict[lesserState] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Limits: orchestrator.Limits{FanOut: 1}}
				w, in := newWorld(), Input{Text: "a", RequestID: "r"}
				g := &grave{World: w}
				if _, err := g.Ends().Start(t, counted(g.Die), o).Execute(t.Context(), "s", in, nil); err == nil {
					t.Fatal("the process did not die")
				}
				w.FreeUp(t, "counted")
				older := lesserDef{Name: "counted", Intents: orchestrator.Intents[lesserState]{
					"count": {Run: func(context.Context, *orchestrator.Turn[lesserState]) error { return nil }},
				}}
				set(&older)
				outcome, err := bottest.StartAs(t, w, older).Recover(t.Context(), "s")
				wantDrift(t, err, []string{"N"}, nil)
				if outcome != "drift" {
					t.Errorf("outcome %q", outcome)
				}
				res := execute(t, w.Start(t, counted(nil), o), in)
				if res.State.N != 1 || res.State.A != "done" {
					t.Errorf("%+v", res.State)
				}
			})
		})
	}
}

// Several older processes drain. Each adopts such a run once, and not again while the part that it cannot read is
// there, although each refusal of another is a save. Another payload is looked at anew.
func TestRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, in := newWorld(), Input{Text: "a", RequestID: "r"}
		adopted := 0
		w.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.On(
			func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
				adopted++
				return next(ctx)
			}, "Adopt"))
		o := Options{Limits: orchestrator.Limits{FanOut: 1}}
		dies := func(d func(die func()) Def) {
			t.Helper()
			g := &grave{World: w}
			if _, err := g.Ends().Start(t, d(g.Die), o).Execute(t.Context(), "s", in, nil); err == nil {
				t.Fatal("the process did not die")
			}
			w.FreeUp(t, "counted")
		}
		dies(counted)
		older := lesserDef{Name: "counted", Intents: orchestrator.Intents[lesserState]{
			"count": {Run: func(context.Context, *orchestrator.Turn[lesserState]) error { return nil }},
		}}
		var olds []*orchestrator.Orchestrator[lesserState]
		for range 3 {
			olds = append(olds, bottest.StartAs(t, w, older))
		}
		pass := func() {
			t.Helper()
			adopted = 0
			for range 5 {
				for _, bot := range olds {
					if outcome, err := bot.Recover(t.Context(), "s"); outcome != "drift" {
						t.Fatalf("outcome %s: %v", outcome, err)
					}
				}
			}
		}
		if pass(); adopted != len(olds) {
			t.Errorf("%d older processes have adopted the run %d times", len(olds), adopted)
		}
		if run := wantRuns(t, w.Start(t, counted(nil), o), 1)[0]; run.Attempt > 0 {
			t.Errorf("attempt %d is counted", run.Attempt)
		}
		dies(counted) // it goes on from the same payload
		if pass(); adopted != 0 {
			t.Errorf("adopted %d times, and nothing that could not be read has changed", adopted)
		}
		if res := execute(t, w.Start(t, counted(nil), o), in); res.State.N != 1 || res.State.A != "done" {
			t.Errorf("%+v", res.State)
		}
	})
}

// tagged is a state whose field has another name in JSON.
type tagged struct {
	Count int `json:"count"`
}

// A deploy makes the state a map. The finished branches of the process before name fields that a map does not have, so
// they run again: nothing of them is lost.
func TestStructBecomesMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, in, o := newWorld(), Input{Text: "a", RequestID: "r"}, Options{Limits: orchestrator.Limits{FanOut: 1}}
		g := &grave{World: w}
		o.Snapshots = g.Ends().Snapshots
		before, err := orchestrator.New(orchestrator.Definition[tagged]{
			Name: "map", Intents: orchestrator.Intents[tagged]{"count": {
				Run: func(_ context.Context, t *orchestrator.Turn[tagged]) error {
					if t.ItemNumber == 2 {
						g.Die()
						return errDead
					}
					t.State.Count = 1
					return nil
				},
			}},
			Route: func(context.Context, *orchestrator.Turn[tagged]) (Next, error) {
				return orchestrator.ForEach("count", 1, 2), nil
			},
		}, g.Ends().Checkpoints, &o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := before.Execute(t.Context(), "s", in, nil); err == nil {
			t.Fatal("the process did not die")
		}
		w.FreeUp(t, "map")
		type state map[string]int
		after := bottest.StartAs(t, w, orchestrator.Definition[state]{
			Name: "map", Intents: orchestrator.Intents[state]{"count": {
				Run: func(_ context.Context, t *orchestrator.Turn[state]) error {
					if t.ItemNumber == 1 {
						t.State = state{"count": 1}
					}
					return nil
				},
			}},
			Route: func(context.Context, *orchestrator.Turn[state]) (Next, error) {
				return orchestrator.ForEach("count", 1, 2), nil
			},
		})
		res, err := after.Execute(t.Context(), "s", in, nil)
		if err != nil || res.State["count"] != 1 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
