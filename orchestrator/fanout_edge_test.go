package orchestrator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// lookRouted is each with items that Route names. Route also says how many it has named.
func lookRouted(looked *[]string, die func()) Def {
	d := each(func(_ context.Context, _ *Turn, word string) error {
		if word == "ccc" && die != nil {
			die()
			return errDead
		}
		*looked = append(*looked, word)
		return nil
	})
	d.First, d.Iterate = "", false
	delete(d.Intents, "split")
	d.Route = func(_ context.Context, t *Turn) (Next, error) {
		words := strings.Fields(t.Input.Text)
		t.State.Said = append(t.State.Said, fmt.Sprint(len(words)))
		return orchestrator.ForEach("look", words...), nil
	}
	return d
}

// dies runs a turn, or goes on with one, in a process that dies at the word "ccc".
func diesLooking(t *testing.T, w world, looked *[]string, in Input, o Options) {
	t.Helper()
	g := &grave{World: w}
	bot := g.Ends().Start(t, lookRouted(looked, g.Die), o)
	if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
		t.Fatal("the process did not die")
	}
	w.FreeUp(t, bot.Name())
}

// A run begins without a ledger, and its process dies after three of the items. A process with a ledger takes the run
// up, and dies too. The items that had finished do not run again.
func TestItemsUnderANewLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, in := newWorld(), Input{Text: "a bb dd ccc", RequestID: "r"}
		one, l := orchestrator.Limits{FanOut: 1}, new(ledger.Memory)
		var looked []string
		diesLooking(t, w, &looked, in, Options{Limits: one})
		if fmt.Sprint(looked) != "[a bb dd]" {
			t.Fatalf("looked at %v before the first crash", looked)
		}
		looked = nil
		diesLooking(t, w, &looked, in, Options{Limits: one, Ledger: l})
		if len(looked) > 0 {
			t.Errorf("looked again at %v after the first crash", looked)
		}
		bot := w.Start(t, lookRouted(&looked, nil), Options{Limits: one, Ledger: l})
		res := execute(t, bot, in)
		wantSaid(t, res.State, "4", "1a", "2bb", "3dd", "4ccc")
		if fmt.Sprint(looked) != "[ccc]" {
			t.Errorf("looked at %v after the second crash", looked)
		}
	})
}

// A process with a ledger dies at the first item that Route has named. What Route did to the state is not lost.
func TestItemsKeepWhatRouteDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, in := newWorld(), Input{Text: "ccc a", RequestID: "r"}
		o := Options{Limits: orchestrator.Limits{FanOut: 1}, Ledger: new(ledger.Memory)}
		var looked []string
		diesLooking(t, w, &looked, in, o)
		res := execute(t, w.Start(t, lookRouted(&looked, nil), o), in)
		wantSaid(t, res.State, "2", "1ccc", "2a")
	})
}

// A process dies in the middle of a fan-out. What the branches that had finished have used is part of the step, too.
func TestStepUsageOfBranchesBeforeACrash(t *testing.T) {
	for name, l := range map[string]ledger.Ledger{"no ledger": nil, "ledger": new(ledger.Memory)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, in := newWorld(), Input{Text: "a bb ccc dd", RequestID: "r"}
				spends := func(die func()) Def {
					d := lookRouted(new([]string), die)
					look, route := d.Intents["look"], d.Route
					run := look.Run
					look.Run = func(ctx context.Context, t *Turn) error {
						t.AddUsage(orchestrator.Usage{Input: 1})
						return run(ctx, t)
					}
					d.Intents["look"] = look
					d.Begin = func(_ context.Context, t *Turn) error {
						t.AddUsage(orchestrator.Usage{Input: 1000})
						return nil
					}
					d.Route = func(ctx context.Context, t *Turn) (Next, error) {
						t.AddUsage(orchestrator.Usage{Input: 100})
						return route(ctx, t)
					}
					return d
				}
				o := Options{Limits: orchestrator.Limits{FanOut: 1}, Ledger: l}
				g := &grave{World: w}
				bot := g.Ends().Start(t, spends(g.Die), o)
				if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
					t.Fatal("the process did not die")
				}
				w.FreeUp(t, bot.Name())
				res := execute(t, w.Start(t, spends(nil), o), in)
				if res.Usage.Input != 1104 || len(res.Steps) != 1 || res.Steps[0].Usage.Input != 104 {
					t.Errorf("used %v, in steps %v", res.Usage, res.Steps)
				}
			})
		})
	}
}
