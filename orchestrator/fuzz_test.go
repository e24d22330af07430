package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// fanned is a bot whose turns are a fan-out and an iteration after it.
func fanned() Def {
	a := func(_ context.Context, t *Turn) error { t.State.A += "a"; return nil }
	b := func(_ context.Context, t *Turn) error { t.State.Facts = map[string]int{"b": 1}; return nil }
	return Def{
		Name: "fanned", Iterate: true, Intents: Intents{
			"a": {Run: a, Next: orchestrator.To("c")}, "b": {Run: b, Next: orchestrator.To("c")},
			"c": {Run: say("c"), Next: orchestrator.End},
		},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
	}
}

// fannedRun returns the stored documents of a turn of that bot whose process died: in its fan-out, or after it.
func fannedRun(f *testing.F, after bool) (r snapshot.Run) {
	w := newWorld()
	w.Crash(f, func(die func()) Def {
		d := fanned()
		for name, in := range d.Intents {
			run := in.Run
			in.Run = func(ctx context.Context, t *Turn) error {
				if name == "c" == after && name != "a" {
					if !after {
						watched = w.Snapshots
						if err := savedOf(ctx, "fanned", t); err != nil {
							return err
						}
					}
					die()
				}
				return run(ctx, t)
			}
			d.Intents[name] = in
		}
		return d
	}, Input{Text: "x", Data: json.RawMessage(`{"n":1}`)})
	k := snapshot.Key{Orchestrator: "fanned", Session: "s"}
	c, err := seize(f.Context(), w.Checkpoints, k, "another", time.Minute)
	if err == nil {
		r, err = w.Snapshots.Adopt(f.Context(), k, c.Fence, 0)
	}
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// savedOf waits until something was saved of the turn's run.
func savedOf(ctx context.Context, bot string, t *Turn) error {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		k := snapshot.Key{Orchestrator: bot, Session: t.Session}
		for r, err := range watched.Runs(ctx, snapshot.Query{Key: k}) {
			if err == nil && r.Seq > 0 {
				return nil
			}
		}
	}
	return ctx.Err()
}

// No stored run or settled turn makes the engine panic. A fault that is not in the state is damage. The run can be
// ended, and the session goes on.
func FuzzStored(f *testing.F) {
	const turn = `{"v":1,"input":{"text":"x","data":{"n":1}},"usage":{"in":3,"cost":0.5},` +
		`"steps":[{"to":["a","b"],"why":"y","ms":3}]}`
	for _, after := range []bool{false, true} {
		r := fannedRun(f, after)
		fan, branch, usage := r.Parts["fan"], r.Parts["branch 0"], r.Parts["usage"]
		f.Add([]byte(r.Payload), []byte(fan), []byte(branch), []byte(usage), []byte(turn))
	}
	for _, next := range []string{
		`{}`, `{"to":[""]}`, `{"to":["a",""]}`, `{"to":["gone"]}`, `{"end":true}`, `null`, `"a"`,
	} {
		payload := `{"v":1,"born":1,"signature":"` + signature(f) + `","input":{},"next":` + next + `}`
		fan, branch := `{"iteration":0,"next":`+next+`}`, `{"intent":"a","change":{"fields":["A"]}}`
		f.Add([]byte(payload), []byte(fan), []byte(branch), []byte(`{}`), []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, payload, fan, branch, usage, turn []byte) {
		for _, doc := range [][]byte{payload, fan, branch, usage, turn} {
			if len(doc) > 0 && jsonvalue.Check(doc) != nil {
				t.Skip("no store returns it")
			}
		}
		if len(payload) == 0 {
			t.Skip("a Save without a payload keeps the stored one")
		}
		parts := make(map[string]json.RawMessage)
		for name, doc := range map[string][]byte{"fan": fan, "branch 0": branch, "usage": usage} {
			if len(doc) > 0 {
				parts[name] = doc
			}
		}
		fuzzRun(t, snapshot.Run{Payload: payload, Parts: parts})
		fuzzTurn(t, turn)
	})
}

// signature is that of the bot.
func signature(f *testing.F) string {
	w := newWorld()
	execute(f, w.Start(f, fanned(), Options{}), Input{})
	k := checkpoint.Key{Orchestrator: "fanned", Session: "s"}
	cp, err := checkpoint.Load(f.Context(), w.Checkpoints, k, checkpoint.Newest)
	if err != nil {
		f.Fatal(err)
	}
	return cp.Signature
}

func fuzzRun(t *testing.T, r snapshot.Run) {
	for name, call := range map[string]func(*Bot) error{
		"resume":  func(bot *Bot) error { _, err := bot.Resume(t.Context(), "s", nil); return err },
		"input":   func(bot *Bot) error { _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); return err },
		"recover": func(bot *Bot) error { _, err := bot.Recover(t.Context(), "s"); return err },
	} {
		w := newWorld()
		beginRun(t, w, r)
		bot := w.Start(t, fanned(), Options{})
		known(t, name, call(bot))
		if err := abandon(t, bot, "s"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		execute(t, bot, Input{Text: "c"})
	}
}

// begin makes r a run of session s whose owner has gone.
func beginRun(t *testing.T, w world, r snapshot.Run) {
	k := checkpoint.Key{Orchestrator: "fanned", Session: "s"}
	c, err := seize(t.Context(), w.Checkpoints, k, "another", time.Minute)
	if err == nil {
		r.Key, r.ID, r.Status, r.Attempt, r.Fence = c.Key, "run", snapshot.Running, 1, c.Fence
		_, err = w.Snapshots.Begin(t.Context(), r)
	}
	if err == nil {
		err = w.Checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func fuzzTurn(t *testing.T, payload []byte) {
	const state = `{"Said":["a","b"]}`
	w := newWorld()
	bot := w.Start(t, echo(), Options{})
	settleTurn(t, w, execute(t, bot, Input{Text: "a"}), state, string(payload))
	for _, err := range bot.Turns(t.Context(), "s") {
		known(t, "turns", err)
	}
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "b"}, nil)
	if !errors.Is(err, orchestrator.ErrRequestReused) {
		known(t, "repeat", err)
	}
	known(t, "fork", bot.Fork(t.Context(), "s", checkpoint.Newest, "forked"))
	execute(t, bot, Input{Text: "c"})

	d := echo()
	d.Deliver = func(context.Context, *Result) error { return nil }
	w = newWorld()
	bot = w.Start(t, d, Options{})
	owed := checkpoint.AppendOptions{Owes: true, Release: true}
	appendTurn(t, w, execute(t, bot, Input{Text: "a"}), state, string(payload), owed)
	_, err = bot.Recover(t.Context(), "s")
	known(t, "deliver", err)
	_, err = bot.SkipDelivery(t.Context(), "s", "by hand")
	known(t, "skip", err)
	execute(t, bot, Input{Text: "c"})
}

// known refuses an error that says nothing of what is wrong with a stored document.
func known(t *testing.T, call string, err error) {
	t.Helper()
	if _, panicked := errors.AsType[*orchestrator.PanicError](err); panicked {
		t.Errorf("%s: %v", call, err)
	}
	e, ok := errors.AsType[*orchestrator.Error](err)
	switch _, drift := errors.AsType[*orchestrator.DriftError](err); {
	case err == nil, drift, errors.Is(err, snapshot.ErrDamaged), errors.Is(err, checkpoint.ErrDamaged):
	case errors.Is(err, orchestrator.ErrNothingToResume), errors.Is(err, orchestrator.ErrMaxIterations):
	case ok && e.Op == "drift": // the state is none of this bot
	default:
		t.Errorf("%s: %v", call, err)
	}
}
