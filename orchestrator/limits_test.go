package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

const mebi = 1 << 20

// quoted is a JSON string of n bytes.
func quoted(n int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
}

// deep is so many arrays within one another.
func deep(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// An input that is too large is refused before anything runs, with a snapshot store and without, and the error holds
// the limit. One that is just small enough settles. What counts is the shortest JSON.
func TestInputLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limit int // 0: the default
		in    Input
		field string // "": it is taken
	}{
		"text":               {0, Input{Text: strings.Repeat("x", mebi-1)}, "text"},
		"text that fits":     {0, Input{Text: strings.Repeat("x", mebi-2)}, ""},
		"16 MiB of text":     {0, Input{Text: strings.Repeat("x", 16*mebi)}, "text"},
		"lines":              {0, Input{Text: strings.Repeat("\n", mebi/2)}, "text"},
		"lines that fit":     {0, Input{Text: strings.Repeat("\n", mebi/2-1)}, ""},
		"6 MiB of lines":     {0, Input{Text: strings.Repeat("\n", 6*mebi)}, "text"},
		"angles":             {0, Input{Text: strings.Repeat("<", mebi-2)}, ""},
		"data":               {0, Input{Data: quoted(mebi + 1)}, "data"},
		"data that fits":     {0, Input{Data: quoted(mebi)}, ""},
		"both":               {0, Input{Text: "x", Data: quoted(mebi - 2)}, "text and data"},
		"both, and they fit": {0, Input{Text: "x", Data: quoted(mebi - 3)}, ""},
		"a written number":   {0, Input{Data: json.RawMessage(`[` + strings.Repeat("1e131071,", 8) + `1]`)}, "data"},
		"white space":        {0, Input{Data: append(bytes.Repeat([]byte(" "), mebi), `{"n" : 1}`...)}, ""},
		"much white space":   {0, Input{Data: append(bytes.Repeat([]byte(" "), 3*mebi), `{"n" : 1}`...)}, "data"},
		"depth":              {0, Input{Data: deep(999)}, "data"},
		"depth that fits":    {0, Input{Data: deep(998)}, ""},
		"a smaller limit":    {10, Input{Text: "123456789"}, "text"},
		"a smaller one fits": {10, Input{Text: "12345678"}, ""},
		"the largest limit":  {15 * mebi, Input{Text: strings.Repeat("<", 15*mebi-2)}, ""},
		"more than that":     {15 * mebi, Input{Text: strings.Repeat("<", 15*mebi-1)}, "text"},
		"lines, the most":    {15 * mebi, Input{Text: strings.Repeat("\n", 15*mebi/2-1)}, ""},
		"lines, and one":     {15 * mebi, Input{Text: strings.Repeat("\n", 15*mebi/2)}, "text"},
	} {
		for _, w := range []world{newWorld(), {Checkpoints: new(checkpoint.Memory), Snapshots: nil}} {
			t.Run(fmt.Sprint(name, ", runs: ", w.Snapshots != nil), func(t *testing.T) {
				if raceDetector && c.limit > mebi {
					t.Skip("too slow under the race detector; make test runs it without")
				}
				ran := false
				d := echo()
				d.Begin = func(context.Context, *Turn) error { ran = true; return nil }
				d.Intents = Intents{"note": {Run: say("noted")}}
				bot := w.Start(t, d, Options{Limits: orchestrator.Limits{Input: c.limit}})
				_, err := bot.Execute(t.Context(), "s", c.in, nil)
				if ran != (c.field == "") {
					t.Errorf("ran is %v: %v", ran, err)
				}
				if c.field == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantOp(t, err, "input")
				limit := fmt.Sprintf("Limits.Input is %d", max(c.limit, 10))
				if c.limit == 0 {
					limit = "Limits.Input is 1048576"
				}
				e, ok := errors.AsType[*orchestrator.InputError](err)
				if !ok || e.Field != c.field || !strings.Contains(e.Reason, limit) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// New refuses limits that no store could keep.
func TestSizeLimits(t *testing.T) {
	for want, l := range map[string]orchestrator.Limits{
		"Limits.Input is negative":           {Input: -1},
		"Limits.State is negative":           {State: -1},
		"Limits.Input is more than 15728640": {Input: 15*mebi + 1},
		"Limits.State is more than 15728640": {State: 15*mebi + 1},
	} {
		_, err := orchestrator.New(echo(), new(checkpoint.Memory), &Options{Limits: l})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// wantTooLarge checks that a turn has failed because of its state, for good.
func wantTooLarge(t *testing.T, bot *Bot, err error, limit int) {
	t.Helper()
	e, ok := errors.AsType[*orchestrator.StateError](err)
	want := fmt.Sprint("Limits.State is ", limit)
	if !ok || e.Limit != limit || e.Size <= limit || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v", err)
	}
	if errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Errorf("the turn has failed, and the error says that it may settle: %v", err)
	}
	wantRuns(t, bot, 0)
}

// grower is a bot that makes a state of the input's size, at the place that the input names: "begin", "one" (an intent
// that is saved), "two" (one that settles), "fan" (a branch), "merge" (two branches), "route".
func grower(limit int) Def {
	grow := func(t *Turn, at string, n int) {
		if t.Input.Text == at {
			t.State.A = strings.Repeat("x", n)
		}
	}
	intent := func(at string, next Next) Intent {
		return Intent{Next: next, Run: func(_ context.Context, t *Turn) error { grow(t, at, limit); return nil }}
	}
	half := func(set func(*State, string)) Intent {
		return Intent{Next: orchestrator.End, Run: func(_ context.Context, t *Turn) error {
			if t.Input.Text == "merge" {
				set(&t.State, strings.Repeat("x", limit/2))
			}
			grow(t, "fan", limit)
			return nil
		}}
	}
	return Def{
		Name: "grower", Iterate: true,
		Begin: func(_ context.Context, t *Turn) error { grow(t, "begin", limit); return nil },
		Route: func(_ context.Context, t *Turn) (Next, error) {
			grow(t, "route", limit)
			switch t.Input.Text {
			case "fan", "merge", "route":
				return orchestrator.To("left", "right"), nil
			}
			return orchestrator.To("one"), nil
		},
		Intents: Intents{
			"one": intent("one", orchestrator.To("two")), "two": intent("two", orchestrator.End),
			"left":  half(func(s *State, v string) { s.A = v }),
			"right": half(func(s *State, v string) { s.B = v }),
		},
	}
}

// A turn whose state grew too much fails for good, wherever it grew, and the session goes on from the state before.
func TestStateLimit(t *testing.T) {
	const limit = 4 << 10
	for name, w := range map[string]world{"with runs": newWorld(), "without": worldOf(new(checkpoint.Memory), nil)} {
		t.Run(name, func(t *testing.T) {
			bot := w.Start(t, grower(limit), Options{Limits: orchestrator.Limits{State: limit}})
			settled := execute(t, bot, Input{Text: "nothing"}).Turn
			for _, at := range []string{"begin", "one", "two", "fan", "merge", "route"} {
				_, err := bot.Execute(t.Context(), "s", Input{Text: at, RequestID: at}, nil)
				if w.Snapshots == nil && at == "one" && err == nil {
					t.Fatal("settled")
				}
				wantTooLarge(t, bot, err, limit)
				settled++
				res := execute(t, bot, Input{Text: "nothing"})
				if res.Turn != settled || res.State.A != "" || res.State.B != "" {
					t.Errorf("%s: turn %d, state of %d and %d bytes", at, res.Turn, len(res.State.A), len(res.State.B))
				}
			}
		})
	}
}

// The default takes a state of 4 MiB, and no more.
func TestStateLimitByDefault(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	size := 0
	d := Def{Name: "large", Intents: Intents{"grow": {Run: func(_ context.Context, t *Turn) error {
		t.State.A = strings.Repeat("x", size)
		return nil
	}}}}
	bot := newWorld().Start(t, d, Options{})
	raw, _ := json.Marshal(State{})
	size = 4*mebi - len(raw)
	execute(t, bot, Input{Text: "a"})
	size++
	_, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)
	wantTooLarge(t, bot, err, 4*mebi)
}

// A run that a drain has taken up fails like any other: it is tried again, and parked in the end. Its end is not
// judged.
func TestStateLimitOfRecovered(t *testing.T) {
	const limit = 4 << 10
	w := newWorld()
	w.Crash(t, func(die func()) Def {
		d := grower(limit)
		d.Intents["one"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
		return d
	}, Input{Text: "two"})
	bot := w.Start(t, grower(limit), Options{Limits: orchestrator.Limits{State: limit}})
	_, err := bot.Recover(t.Context(), "s")
	if _, ok := errors.AsType[*orchestrator.StateError](err); !ok {
		t.Errorf("got %v", err)
	}
	if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Waiting || !strings.Contains(run.Error, "Limits.State") {
		t.Errorf("%s: %s", run.Status, run.Error)
	}
	if err := abandon(t, bot, "s"); err != nil {
		t.Error(err)
	}
	execute(t, bot, Input{Text: "nothing"})
}

// What was taken under a larger limit can be read, forked, abandoned and deleted under a smaller one, and made smaller.
func TestStateLimitLowered(t *testing.T) {
	const before, after = 64 << 10, 4 << 10
	for _, begins := range []bool{false, true} {
		w := newWorld()
		text := strings.Repeat("x", before/2)
		d := echo()
		d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
			if t.State.A = text; t.Input.Text == "shrink" {
				t.State.A = ""
			}
			return nil
		}}
		if begins { // what Begin leaves is not judged
			d.Begin = func(context.Context, *Turn) error { return nil }
		}
		execute(t, w.Start(t, d, Options{Limits: orchestrator.Limits{State: before}}), Input{Text: text})
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{State: after, Input: 64}})
		if err := bot.Fork(t.Context(), "s", 0, "fork"); err != nil {
			t.Error(err)
		}
		for res, err := range bot.Turns(t.Context(), "s") {
			if err != nil || len(res.State.A) != len(text) {
				t.Error(err)
			}
		}
		_, err := bot.Execute(t.Context(), "s", Input{Text: "go on"}, nil)
		wantTooLarge(t, bot, err, after)
		if res := execute(t, bot, Input{Text: "shrink"}); res.Turn != 1 || res.State.A != "" {
			t.Errorf("%+v", res)
		}
		for _, session := range []string{"s", "fork"} {
			if err := bot.Delete(t.Context(), session); err != nil {
				t.Error(err)
			}
		}
	}
}

// A state and an input, each of the most that its limit may be, settle together. A number that JSON writes short
// counts in full.
func TestLargestOfBoth(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	wide := Def{Name: "wide", Iterate: true, First: "grow", Intents: Intents{
		"grow": {Next: orchestrator.To("end"), Run: func(_ context.Context, t *Turn) error {
			t.State.A = strings.Repeat("x", 15*mebi-200)
			return nil
		}},
		"end": {Next: orchestrator.End, Run: func(context.Context, *Turn) error { return nil }},
	}}
	o := Options{Limits: orchestrator.Limits{Input: 15 * mebi, State: 15 * mebi}}
	execute(t, newWorld().Start(t, wide, o), Input{Text: strings.Repeat("<", 15*mebi-2)})

	grow := func(t *orchestrator.Turn[[]float64]) {
		for len(t.State) < 40_000 { // 250 KB of JSON, which PostgreSQL writes as 12 MB
			t.State = append(t.State, 1e300)
		}
	}
	numbers := orchestrator.Definition[[]float64]{
		Name: "numbers", Iterate: true, First: "grow", Intents: orchestrator.Intents[[]float64]{
			"grow": {Next: orchestrator.To("end"), Run: func(_ context.Context, t *orchestrator.Turn[[]float64]) error {
				grow(t)
				return nil
			}},
			"end": {Next: orchestrator.End, Run: func(context.Context, *orchestrator.Turn[[]float64]) error {
				return nil
			}},
		},
	}
	o.Logger = quiet()
	for _, hook := range []func(context.Context, *orchestrator.Turn[[]float64]) error{
		nil, func(_ context.Context, t *orchestrator.Turn[[]float64]) error { grow(t); return nil },
	} {
		numbers.Begin, o.Snapshots = hook, new(snapshot.Memory)
		bot, err := orchestrator.New(numbers, new(checkpoint.Memory), &o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bot.Execute(t.Context(), "s", Input{Text: strings.Repeat("x", 8*mebi)}, nil); err != nil {
			t.Error(err)
		}
	}
}

// The stores take every input that the engine lets in at its highest limit: the values of the data are judged before
// the turn runs.
func TestHeaviestInput(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	t.Parallel()
	w := newWorld()
	most := 15 << 20
	forgetful := echo()
	forgetful.Intents = Intents{"echo": {Run: func(context.Context, *Turn) error { return nil }}}
	o := patient()
	o.Limits.Input = most
	bot := w.Start(t, forgetful, o)
	heavy := func(containers int) json.RawMessage {
		return json.RawMessage("[" + strings.Repeat("{},", containers-2) + "{}]")
	}
	// text takes the rest of the limit, so that both together are at it.
	input := func(containers int) Input {
		data := heavy(containers)
		return Input{Text: strings.Repeat("a", most-len(data)-1<<10), Data: data}
	}
	least, refused := 0, 1_000_000
	for refused-least > 1 {
		n := (least + refused) / 2
		if n < 2 || taken(t, bot, input(n)) {
			least = n
		} else {
			refused = n
		}
	}
	if least < 100_000 {
		t.Errorf("the engine takes %d objects only", least)
	}
}

// taken reports whether an input is taken. If it is not, it must be refused before the session is claimed.
func taken(t *testing.T, bot *Bot, in Input) bool {
	t.Helper()
	_, err := bot.Execute(t.Context(), "s", in, nil)
	if err == nil {
		return true
	}
	if _, ok := errors.AsType[*orchestrator.InputError](err); !ok {
		t.Fatalf("a turn ran before its input was refused: %v", err)
	}
	return false
}
