package orchestrator_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A cost that is no number is not counted. The tokens beside it are, and so is what came before.
func TestCostThatIsNoNumber(t *testing.T) {
	bot := newWorld().Start(t, single(func(_ context.Context, t *Turn) error {
		for _, cost := range []float64{2, math.NaN(), math.Inf(1), math.MaxFloat64, math.MaxFloat64, -1} {
			t.AddUsage(orchestrator.Usage{Input: 1, Cost: cost})
		}
		return nil
	}), Options{})
	in := Input{Text: "a", RequestID: "r"}
	for range 2 { // the second is read
		if u := execute(t, bot, in).Usage; u.Input != 6 || u.Cost != math.MaxFloat64 {
			t.Errorf("used %+v", u)
		}
	}
}

// A line that an intent logs says where it comes from, also of one item of several.
func TestLoggerOfTurn(t *testing.T) {
	var logs bytes.Buffer
	d := Def{Name: "n", First: "list", Iterate: true, Intents: Intents{
		"list": {
			Run: func(_ context.Context, t *Turn) error { t.Logger().Info("at work"); return nil },
			Then: func(context.Context, *Turn) (Next, error) {
				return orchestrator.ForEach("each", "x", "y"), nil
			},
		},
		"each": {
			Run:  func(_ context.Context, t *Turn) error { t.Logger().Info("at work"); return nil },
			Next: orchestrator.End,
		},
	}}
	res := execute(t, newWorld().Start(t, d, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))}), Input{})
	for _, want := range []string{"intent=list\n", "intent=each item=1\n", "intent=each item=2\n"} {
		line := `msg="at work" orchestrator=n session=s turn=0 run=` + res.RunID + " " + want
		if n := strings.Count(logs.String(), line); n != 1 {
			t.Errorf("%d lines %q in\n%s", n, line, &logs)
		}
	}
}

// The steps of a Result are the caller's: what it does to them changes no later turn.
func TestStepsBelongToTheCaller(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{})
	res := execute(t, bot, Input{Text: "a"})
	res.Steps[0].Next.Intents[0] = "spoiled"
	if res := execute(t, bot, Input{Text: "b"}); res.Steps[0].Next.Intents[0] != "echo" {
		t.Errorf("the next turn ran %q", res.Steps[0].Next.Intents)
	}
}
