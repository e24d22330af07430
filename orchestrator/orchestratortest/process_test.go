package orchestratortest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
)

// Wherever a process dies, the next one finishes the turn once its lease is over. Under synctest no test waits.
func TestDiesEverywhere(t *testing.T) {
	for _, step := range []string{
		"look up", "answer", "checkpoint.Claim", "checkpoint.Append", "snapshot.Begin", "snapshot.Save", "snapshot.Delete",
	} {
		for when, die := range map[string]func(*orchestratortest.Process[State], string, int){
			"before": (*orchestratortest.Process[State]).DieBefore, "after": (*orchestratortest.Process[State]).DieAfter,
		} {
			t.Run(when+" "+step, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var world orchestratortest.World
					first := orchestratortest.Start(&world, support(), nil)
					die(first, step, 1)
					_, err := first.Bot.Execute(t.Context(), "s", in, nil)
					if !first.Dead() || err == nil && step != "snapshot.Delete" {
						t.Errorf("the first process is dead: %v, and its call returns %v", first.Dead(), err)
					}
					second := orchestratortest.Start(&world, support(), nil)
					res, err := second.Bot.Execute(t.Context(), "s", in, nil)
					if err != nil || res.Turn != 0 || res.State.Reply != "A-1042 is on its way" {
						t.Fatalf("%+v, %v", res, err)
					}
					if ran := second.Ran(); step == "checkpoint.Append" && when == "after" && len(ran) > 0 {
						t.Errorf("the second process ran %v", ran)
					}
				})
			})
		}
	}
}

// A process that dies at an item is resumed at that item.
func TestDiesAtAnItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type state struct{ A, B string }
		type turn = orchestrator.Turn[state]
		d := orchestrator.Definition[state]{
			Name: "items",
			Intents: orchestrator.Intents[state]{"look": {Run: func(_ context.Context, t *turn) error {
				if orchestrator.Item[string](t) == "a" {
					t.State.A = "a"
				} else {
					time.Sleep(time.Second)
					t.State.B = "b"
				}
				return nil
			}}},
			Route: func(context.Context, *turn) (orchestrator.Next, error) {
				return orchestrator.ForEach("look", "a", "b"), nil
			},
		}
		var world orchestratortest.World
		first := orchestratortest.Start(&world, d, nil)
		first.DieAfter("look item 2", 1)
		_, _ = first.Bot.Execute(t.Context(), "s", in, nil)
		second := orchestratortest.Start(&world, d, nil)
		res, err := second.Bot.Resume(t.Context(), "s", nil)
		if err != nil || res.State != (state{"a", "b"}) || !slices.Equal(second.Ran(), []string{"look item 2"}) {
			t.Errorf("%+v, %v, ran %v", res, err, second.Ran())
		}
	})
}

// Functions that run when the process dies are told, and it hears no more of them.
func TestKillEndsFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := support()
		var cause error
		answer := d.Intents["answer"]
		answer.Run = func(ctx context.Context, t *Turn) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			t.State.Reply = "from the grave"
			return nil
		}
		d.Intents["answer"] = answer
		var world orchestratortest.World
		first := orchestratortest.Start(&world, d, nil)
		time.AfterFunc(time.Minute, first.Kill)
		_, err := first.Bot.Execute(t.Context(), "s", in, nil)
		if err == nil || !errors.Is(cause, orchestratortest.ErrDied) {
			t.Errorf("%v, and the function saw %v", err, cause)
		}
		second := orchestratortest.Start(&world, support(), nil)
		res, err := second.Bot.Resume(t.Context(), "s", nil)
		if err != nil || res.State.Reply != "A-1042 is on its way" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// Each fault shows where it should. A process that is cut off loses its session to another, and settles nothing.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var world orchestratortest.World
		p := orchestratortest.Start(&world, support(), nil)
		p.Slow("", time.Second)
		start := time.Now()
		if _, err := p.Bot.Execute(t.Context(), "slow", in, nil); err != nil || time.Since(start) < 4*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		p = orchestratortest.Start(&world, support(), nil)
		p.Fail("checkpoint.Append", 2)
		if _, err := p.Bot.Execute(t.Context(), "fails", in, nil); err != nil {
			t.Error(err)
		}
		p = orchestratortest.Start(&world, support(), nil)
		p.Fail("checkpoint.Append", 0)
		_, err := p.Bot.Execute(t.Context(), "fails on", orchestrator.Input{Text: "x"}, nil)
		if !errors.Is(err, orchestrator.ErrIndeterminate) || !strings.Contains(err.Error(), "refused") {
			t.Error(err)
		}

		var cut *orchestratortest.Process[State]
		d := support()
		answer := d.Intents["answer"]
		run := answer.Run
		answer.Run = func(ctx context.Context, t *Turn) error {
			cut.CutOff()
			return run(ctx, t)
		}
		d.Intents["answer"] = answer
		cut = orchestratortest.Start(&world, d, nil)
		call := cut.Bot.Stream(t.Context(), "cut", in, nil)
		other := orchestratortest.Start(&world, support(), nil)
		synctest.Wait()
		res, err := other.Bot.Execute(t.Context(), "cut", in, nil)
		if err != nil || res.Turn != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if _, err := call.Result(); !errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Errorf("the process that was cut off got %v", err)
		}
	})
}

// A mistake in a test is told at once.
func TestMistakes(t *testing.T) {
	var world orchestratortest.World
	p := orchestratortest.Start(&world, support(), nil)
	for says, mistake := range map[string]func(){
		`no step "anwser"`: func() { p.DieAfter("anwser", 1) },
		`no step "Save"`:   func() { p.Fail("Save", 1) },
		"that lives":       func() { _ = p.Expire(t.Context()) },
		"no intents":       func() { orchestratortest.Start(&world, orchestrator.Definition[State]{Name: "x"}, nil) },
	} {
		if got := panics(mistake); !strings.Contains(got, says) {
			t.Errorf("%q, want %q", got, says)
		}
	}
}

// panics returns what f panics with.
func panics(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

// A run that is taken from a process that has stopped is told in the log: from whom, after how long, which attempt. The
// time is that without a sign of life, and not that of a lease.
func TestTakeoverIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := support()
		lookUp := d.Intents["look up"].Run
		d.Intents["look up"] = orchestrator.Intent[State]{
			Run: func(ctx context.Context, t *Turn) error {
				time.Sleep(3 * time.Second)
				return lookUp(ctx, t)
			},
			Next: orchestrator.To("answer"),
		}
		var world orchestratortest.World
		first := orchestratortest.Start(&world, d, nil)
		first.DieAfter("look up", 1)
		_, _ = first.Bot.Execute(t.Context(), "s", in, nil)
		died := time.Now()
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		second := orchestratortest.Start(&world, d, &orchestrator.Options{Logger: logger})
		_, err := second.Bot.Execute(t.Context(), "s", in, nil)
		if took := time.Since(died); err != nil || took < 6*time.Second || took > 9*time.Second { // 3 s are the intent
			t.Errorf("the turn is finished after %v: %v", took, err)
		}
		if text := log.String(); !strings.Contains(text, " from=") || !strings.Contains(text, " silent_ms=4") ||
			!strings.Contains(text, " attempt=2") {
			t.Errorf("the log says %q", text)
		}
	})
}
