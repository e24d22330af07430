package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

func TestTurn(t *testing.T) {
	for name, w := range map[string]world{"snapshots": newWorld(), "none": {Checkpoints: newWorld().Checkpoints}} {
		t.Run(name, func(t *testing.T) {
			bot := w.Start(t, echo(), Options{})
			first := execute(t, bot, Input{Text: "a"})
			second := execute(t, w.Start(t, echo(), Options{}), Input{Text: "b"})
			wantSaid(t, first.State, "a")
			wantSaid(t, second.State, "a", "b")
			if first.Turn != 0 || second.Turn != 1 || first.RunID == second.RunID || len(second.Steps) != 1 {
				t.Errorf("first %+v, second %+v", first, second)
			}
			wantRuns(t, bot, 0)
		})
	}
}

// One dispatch is a turn, and settles: no function has to return END.
func TestOneDispatch(t *testing.T) {
	d := Def{
		Name: "one", Intents: Intents{"a": {Run: say("a")}, "b": {Run: say("b")}},
		Route: func(_ context.Context, t *Turn) (Next, error) {
			if t.Input.Text == "nothing" {
				return orchestrator.End, nil
			}
			return orchestrator.To(t.Input.Text), nil
		},
	}
	bot := newWorld().Start(t, d, Options{})
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "b")
	wantSaid(t, execute(t, bot, Input{Text: "nothing"}).State, "b")
	res := execute(t, bot, Input{Text: "a"})
	wantSaid(t, res.State, "b", "a")
	if res.Turn != 2 || len(res.Steps) != 1 || !slices.Equal(res.Steps[0].Next.Intents, []string{"a"}) {
		t.Errorf("turn %d, steps %v", res.Turn, res.Steps)
	}
}

// The first function with a decision decides what runs next.
func TestRouting(t *testing.T) {
	route := func(_ context.Context, t *Turn) (Next, error) {
		if slices.Contains(t.Ran, "routed") {
			return orchestrator.End, nil
		}
		return orchestrator.Next{Intents: []string{"routed"}, Reason: "why not"}, nil
	}
	evaluate := func(_ context.Context, t *Turn) (Next, error) {
		if len(t.Ran) == 2 && t.Feedback == "" {
			t.Feedback = "again, politely"
			return orchestrator.To("polite"), nil
		}
		return Next{}, nil
	}
	var feedback []string
	intents := Intents{
		"first":  {Run: say("first"), Next: orchestrator.To("next")},
		"next":   {Run: say("next")},
		"routed": {Run: say("routed")},
		"polite": {Run: func(ctx context.Context, t *Turn) error {
			feedback = append(feedback, t.Feedback)
			return say("polite")(ctx, t)
		}},
	}
	bot := newWorld().Start(t, Def{
		Name: "r", Intents: intents, First: "first", Route: route, Evaluate: evaluate,
		Iterate: true,
	}, Options{})
	res := execute(t, bot, Input{Text: "x"})
	wantSaid(t, res.State, "first", "next", "polite", "routed")
	if !slices.Equal(feedback, []string{"again, politely"}) {
		t.Errorf("feedback %q", feedback)
	}
	if last := res.Steps[3]; len(res.Steps) != 4 || last.Next.Reason != "why not" {
		t.Errorf("steps %v", res.Steps)
	}
}

func TestRouteErrors(t *testing.T) {
	intents := Intents{"a": {Run: say("a")}, "b": {Run: say("b")}, "c": {Run: say("c")}}
	for name, next := range map[string]Next{
		"nothing":          {},
		"unknown":          orchestrator.To("d"),
		"too many at once": orchestrator.To("a", "b", "c"),
	} {
		t.Run(name, func(t *testing.T) {
			d := Def{
				Name: "r", Intents: intents,
				Route: func(context.Context, *Turn) (Next, error) { return next, nil },
			}
			w := newWorld()
			bot := w.Start(t, d, Options{Limits: orchestrator.Limits{FanOut: 2}})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
			wantOp(t, err, "route")
			wantRuns(t, bot, 0)
			if n := len(turns(t, bot)); n != 0 {
				t.Errorf("%d turns", n)
			}
		})
	}
	t.Run("twice is once", func(t *testing.T) {
		d := Def{
			Name: "r", Intents: intents,
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b", "a"), nil },
		}
		d.Merge = func(base State, branches []State) (State, error) {
			base.N = len(branches)
			return base, nil
		}
		if res := execute(t, newWorld().Start(t, d, Options{Limits: orchestrator.Limits{FanOut: 2}}),
			Input{}); res.State.N != 2 {
			t.Errorf("%d branches", res.State.N)
		}
	})
}

func TestMaxIterations(t *testing.T) {
	ran := 0
	d := Def{
		Name: "r", Iterate: true, Intents: Intents{"a": {Run: func(context.Context, *Turn) error {
			ran++
			return nil
		}}},
		Evaluate: func(context.Context, *Turn) (Next, error) { return Next{}, nil },
	}
	bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{Iterations: 3}})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrMaxIterations)
	if ran != 3 {
		t.Errorf("%d iterations", ran)
	}
	wantRuns(t, bot, 0)
}

// Every branch has a copy of the state. The changes of the branches are merged field by field.
func TestFanOut(t *testing.T) {
	var together sync.WaitGroup
	together.Add(2)
	branch := func(change func(*State)) func(context.Context, *Turn) error {
		return func(_ context.Context, t *Turn) error {
			t.State.Facts["seen"]++
			delete(t.State.Facts, "seen")
			change(&t.State)
			together.Done()
			together.Wait() // both run at once
			return nil
		}
	}
	d := Def{
		Name: "fan", Begin: func(_ context.Context, t *Turn) error {
			t.State.Facts = map[string]int{"old": 1}
			return nil
		},
		Intents: Intents{
			"a": {Run: branch(func(s *State) { s.A = "from a" })},
			"b": {Run: branch(func(s *State) { s.B = "from b" })},
		},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
	}
	res := execute(t, newWorld().Start(t, d, Options{}), Input{})
	if s := res.State; s.A != "from a" || s.B != "from b" || s.Facts["old"] != 1 || len(s.Facts) != 1 {
		t.Errorf("merged %+v", s)
	}
}

func TestMerge(t *testing.T) {
	set := func(a string, n int) func(context.Context, *Turn) error {
		return func(_ context.Context, t *Turn) error { t.State.A, t.State.N = a, n; return nil }
	}
	run := func(t *testing.T, x, y func(context.Context, *Turn) error,
		merge func(State, []State) (State, error),
	) (*Result, error) {
		d := Def{
			Name: "fan", Intents: Intents{"x": {Run: x}, "y": {Run: y}}, Merge: merge,
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("y", "x"), nil },
		}
		return newWorld().Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil)
	}
	t.Run("same", func(t *testing.T) { // each may add one
		_, err := run(t, set("a", 1), set("a", 1), nil)
		wantErr(t, err, orchestrator.ErrMerge)
		wantOp(t, err, "merge")
	})
	t.Run("separate", func(t *testing.T) {
		a := func(_ context.Context, t *Turn) error { t.State.A = "a"; return nil }
		n := func(_ context.Context, t *Turn) error { t.State.N = 1; return nil }
		if res, err := run(t, a, n, nil); err != nil || res.State.A != "a" || res.State.N != 1 {
			t.Error(res, err)
		}
	})
	t.Run("different", func(t *testing.T) {
		_, err := run(t, set("a", 1), set("a", 2), nil)
		wantErr(t, err, orchestrator.ErrMerge)
		wantOp(t, err, "merge")
	})
	t.Run("own, in decision order", func(t *testing.T) {
		res, err := run(t, set("x", 1), set("y", 2), func(base State, branches []State) (State, error) {
			for _, b := range branches {
				base.A += b.A
			}
			return base, nil
		})
		if err != nil || res.State.A != "yx" {
			t.Error(res, err)
		}
	})
}

// A failing branch waits for its sibling. The caller gets the errors of both.
func TestBranchErrors(t *testing.T) {
	boom, bang := errors.New("boom"), errors.New("bang")
	waiting := make(chan struct{})
	d := Def{Name: "fan", Intents: Intents{
		"a": {Run: func(context.Context, *Turn) error { defer close(waiting); return boom }},
		"b": {Run: func(context.Context, *Turn) error { <-waiting; return bang }},
	}, Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil }}
	bot := newWorld().Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, boom, bang)
	wantOp(t, err, "intent")
	wantRuns(t, bot, 0)
}

// The failure of an intent fails the turn, and the state does not change.
func TestIntentFails(t *testing.T) {
	boom := errors.New("boom")
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		t.AddUsage(orchestrator.Usage{Input: 5})
		t.State.Said = append(t.State.Said, t.Input.Text)
		if t.Input.Text == "bad" {
			return boom
		}
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "bad", RequestID: "r"}, nil)
	wantErr(t, err, boom)
	wantOp(t, err, "intent")
	if e := details(t, err); e.Intent != "echo" || e.Turn != 1 || e.RunID == "" || e.Usage.Input != 5 ||
		errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Errorf("%+v", e)
	}
	wantRuns(t, bot, 0)
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a", "b")
}

func TestPanic(t *testing.T) {
	boom := errors.New("boom")
	for name, d := range map[string]Def{
		"intent": {Intents: Intents{"a": {Run: func(context.Context, *Turn) error { panic(boom) }}}},
		"route": {
			Intents: Intents{"a": {Run: say("a")}, "b": {Run: say("b")}},
			Route:   func(context.Context, *Turn) (Next, error) { panic(boom) },
		},
		"begin": {Intents: Intents{"a": {Run: say("a")}}, Begin: func(context.Context, *Turn) error { panic(boom) }},
		"evaluate": {
			Intents: Intents{"a": {Run: say("a")}}, Iterate: true,
			Evaluate: func(context.Context, *Turn) (Next, error) { panic(boom) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			d.Name = "panic"
			bot := newWorld().Start(t, d, Options{})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			wantErr(t, err, boom)
			wantOp(t, err, name)
			if p, ok := errors.AsType[*orchestrator.PanicError](err); !ok || len(p.Stack) == 0 {
				t.Errorf("%v has no stack", err)
			}
			wantRuns(t, bot, 0)
		})
	}
}

// Each attempt starts with a fresh copy of the state.
func TestRetry(t *testing.T) {
	boom := errors.New("boom")
	attempts := 0
	intent := func(p retry.Policy, failures int, err error) Def {
		attempts = 0
		return Def{Name: "retry", Intents: Intents{"a": {Retry: p, Run: func(_ context.Context, t *Turn) error {
			attempts++
			t.State.Said = append(t.State.Said, fmt.Sprint("attempt ", attempts))
			t.AddUsage(orchestrator.Usage{Input: 1})
			if attempts <= failures {
				return err
			}
			return nil
		}}}}
	}
	bot := newWorld().Start(t, intent(retry.Fixed(3, time.Microsecond), 2, boom), Options{})
	res := execute(t, bot, Input{})
	wantSaid(t, res.State, "attempt 3")
	if res.Usage.Input != 3 {
		t.Errorf("usage %v", res.Usage)
	}
	for err, want := range map[error]int{boom: 3, retry.Permanent(boom): 1} {
		bot := newWorld().Start(t, intent(retry.Fixed(3, 0), 9, err), Options{})
		_, got := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, got, boom)
		if attempts != want {
			t.Errorf("%d attempts, want %d", attempts, want)
		}
	}
}

func TestTimeouts(t *testing.T) {
	hang := Intents{"a": {
		Timeout: time.Millisecond,
		Run:     func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() },
	}}
	bot := newWorld().Start(t, Def{Name: "t", Intents: hang}, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, context.DeadlineExceeded)
	wantOp(t, err, "intent")
	wantRuns(t, bot, 0)

	hang["a"] = Intent{Run: hang["a"].Run}
	bot = newWorld().Start(t, Def{Name: "t", Intents: hang},
		Options{Limits: orchestrator.Limits{TurnTimeout: time.Millisecond}})
	_, err = bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, context.DeadlineExceeded)
	if errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Error(err)
	}
	wantRuns(t, bot, 0)
}

// Begin sees the state of the turn before, and may refuse the input.
func TestBegin(t *testing.T) {
	d := echo()
	d.Begin = func(_ context.Context, t *Turn) error {
		if t.Input.Text == "" {
			return &orchestrator.InputError{Field: "text", Reason: "say something"}
		}
		t.State.N = len(t.State.Said)
		t.State.Said = nil
		return nil
	}
	bot := newWorld().Start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	res := execute(t, bot, Input{Text: "b"})
	wantSaid(t, res.State, "b")
	if res.State.N != 1 {
		t.Errorf("Begin saw %d", res.State.N)
	}
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	if in, ok := errors.AsType[*orchestrator.InputError](err); !ok || in.Field != "text" {
		t.Errorf("got %v", err)
	}
	wantRuns(t, bot, 0)
}

func TestInputErrors(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{})
	for name, in := range map[string]Input{
		"text": {Text: "\xff"}, "request id": {RequestID: "\x00"}, "data": {Data: []byte("{")},
	} {
		_, err := bot.Execute(t.Context(), "s", in, nil)
		if e, ok := errors.AsType[*orchestrator.InputError](err); !ok || e.Field != name {
			t.Errorf("%s: %v", name, err)
		}
		wantOp(t, err, "input")
	}
	_, err := bot.Execute(t.Context(), "", Input{}, nil)
	wantOp(t, err, "input")
	if n := len(turns(t, bot)); n != 0 {
		t.Errorf("%d turns", n)
	}
}

func TestHistory(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		t.State.N = len(message.Last(t.History, 5))
		return nil
	}}
	history := []message.Message{message.User("a"), message.Assistant("b")}
	var fail error
	bot := newWorld().Start(t, d, Options{History: func(_ context.Context, session string) ([]message.Message, error) {
		if session != "s" {
			return nil, errors.New("whose?")
		}
		return history, fail
	}})
	if res := execute(t, bot, Input{}); res.State.N != 2 {
		t.Errorf("%d messages", res.State.N)
	}
	fail = errors.New("no messages")
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, fail)
	wantRuns(t, bot, 0)
}

// A turn made by hand works in a test of an intent.
func TestHandMadeTurn(t *testing.T) {
	turn := &Turn{Input: Input{Text: "hello"}}
	turn.Emit("one moment")
	turn.AddUsage(orchestrator.Usage{Input: 2})
	turn.AddUsage(orchestrator.Usage{Input: 1, Cost: 0.5})
	turn.Logger().Debug("works")
	if err := echo().Intents["echo"].Run(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, turn.State, "hello")
	if got := turn.Usage(); got != (orchestrator.Usage{Input: 3, Cost: 0.5}) {
		t.Errorf("usage %v", got)
	}
}
