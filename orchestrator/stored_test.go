package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A name that is no intent ends the turn with an error that holds it, and the empty name is such a name.
func TestNoSuchIntent(t *testing.T) {
	for name, names := range map[string][]string{
		`""`: {""}, `"" `: {"echo", ""}, ` ""`: {"", "echo"}, `"gone"`: {"echo", "gone"},
	} {
		next := orchestrator.To(names...)
		routed, evaluated := echo(), echo()
		routed.Route = func(context.Context, *Turn) (Next, error) { return next, nil }
		evaluated.Iterate = true
		evaluated.Evaluate = routed.Route
		for op, d := range map[string]Def{"route": routed, "evaluate": evaluated} {
			for _, w := range []world{newWorld(), {Checkpoints: new(checkpoint.Memory), Snapshots: nil}} {
				bot := w.Start(t, d, Options{})
				_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
				if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)+" is no intent") {
					t.Errorf("%s says %q: %v", op, names, err)
				}
				wantRuns(t, bot, 0)
			}
		}
	}
}

// edit changes what is stored of the run in flight of session s.
func editRun(t testing.TB, w world, bot string, change func(doc map[string]any), parts map[string]string) {
	t.Helper()
	k := snapshot.Key{Orchestrator: bot, Session: "s"}
	for r, err := range w.Snapshots.Runs(t.Context(), snapshot.Query{Key: k}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Seq++
		if change == nil {
			r.Payload = nil
		} else {
			doc := make(map[string]any)
			if err := json.Unmarshal(r.Payload, &doc); err != nil {
				t.Fatal(err)
			}
			change(doc)
			if r.Payload, err = json.Marshal(doc); err != nil {
				t.Fatal(err)
			}
		}
		r.Parts = make(map[string]json.RawMessage)
		for name, doc := range parts {
			r.Parts[name] = json.RawMessage(doc)
		}
		if err := w.Snapshots.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// A stored decision that names nothing is damage of that run: it does not panic on its finder, and the run can be
// ended.
func TestStoredDecision(t *testing.T) {
	for name, next := range map[string]any{
		"empty":       map[string]any{},
		"of no name":  map[string]any{"to": []any{""}},
		"a name too":  map[string]any{"to": []any{"two", ""}},
		"unknown":     map[string]any{"to": []any{"gone"}},
		"end and go":  map[string]any{"to": []any{"two"}, "end": true},
		"of the type": "two",
	} {
		t.Run(name, func(t *testing.T) {
			testDamaged(t, func(doc map[string]any) { doc["next"] = next }, nil)
		})
	}
}

// So is everything else of a payload that this version cannot have written.
func TestStoredPayload(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"no version":         func(doc map[string]any) { delete(doc, "v") },
		"version of no kind": func(doc map[string]any) { doc["v"] = "1" },
		"version 0":          func(doc map[string]any) { doc["v"] = 0 },
		"no birth":           func(doc map[string]any) { delete(doc, "born") },
		"iteration -1":       func(doc map[string]any) { doc["iteration"] = -1 },
		"steps of no kind":   func(doc map[string]any) { doc["steps"] = "three" },
		"input of no kind":   func(doc map[string]any) { doc["input"] = 3 },
		"usage of no kind":   func(doc map[string]any) { doc["usage"] = "much" },
		"feedback":           func(doc map[string]any) { doc["feedback"] = []int{1} },
	} {
		t.Run(name, func(t *testing.T) { testDamaged(t, change, nil) })
	}
	const fan = `{"iteration":1,"next":{"to":["two","three"]}}`
	for name, parts := range map[string]map[string]string{
		"usage":                {"usage": `"much"`},
		"fan of no kind":       {"fan": `[]`},
		"fan of nothing":       {"fan": `{"iteration":1,"next":{}}`},
		"fan of one":           {"fan": `{"iteration":1,"next":{"to":["two"]}}`},
		"fan of no name":       {"fan": `{"iteration":1,"next":{"to":["two",""]}}`},
		"fan of one, twice":    {"fan": `{"iteration":1,"next":{"to":["two","two"]}}`},
		"fan of strangers":     {"fan": `{"iteration":1,"next":{"to":["two","gone"]}}`},
		"branch of no kind":    {"fan": fan, "branch 0": `7`},
		"branch without state": {"fan": fan, "branch 0": `{"intent":"two","change":{"fields":["A"]}}`},
	} {
		t.Run(name, func(t *testing.T) { testDamaged(t, nil, parts) })
	}
}

// testDamaged damages a run that a crash has left behind.
func testDamaged(t *testing.T, change func(map[string]any), parts map[string]string) {
	calls := map[string]func(*Bot) error{
		"resume": func(bot *Bot) error { _, err := bot.Resume(t.Context(), "s", nil); return err },
		"input":  func(bot *Bot) error { _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); return err },
		"repeat": func(bot *Bot) error {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
			return err
		},
		"recover": func(bot *Bot) error {
			outcome, err := bot.Recover(t.Context(), "s")
			if outcome != "damaged" {
				t.Errorf("recovered as %q", outcome)
			}
			return err
		},
	}
	for name, call := range calls {
		w := newWorld()
		w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
		editRun(t, w, "steps", change, maps.Clone(parts))
		bot := w.Start(t, steps(nil), Options{})
		err := call(bot)
		wantErr(t, err, snapshot.ErrDamaged)
		if d, ok := errors.AsType[*snapshot.DamagedError](err); !ok || d.Session != "s" || d.Orchestrator != "steps" {
			t.Errorf("%s: %v", name, err)
		}
		run := wantRuns(t, bot, 1)[0]
		if ended, err := bot.Abandon(t.Context(), "s", run.ID); err != nil || !ended {
			t.Errorf("%s: ended %v: %v", name, ended, err)
		}
		wantSaid(t, execute(t, bot, Input{Text: "c"}).State, "c one", "c two", "c three")
	}
}

// A run of a later version of this package is not damaged: a process of that version can finish it.
func TestStoredByLaterVersion(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	editRun(t, w, "steps", func(doc map[string]any) { doc["v"], doc["next"] = 3, "something else" }, nil)
	_, err := w.Start(t, steps(nil), Options{}).Resume(t.Context(), "s", nil)
	if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok || errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// A settled turn whose payload cannot be read is damage of that turn: the others are yielded, and the session goes on.
func TestStoredTurn(t *testing.T) {
	for _, payload := range []string{
		`[]`, `"x"`, `{"v":1,"input":3}`, `{"v":1,"steps":[{"to":"one"}]}`, `{"v":1,"usage":{"in":1.5}}`,
	} {
		w := newWorld()
		bot := w.Start(t, echo(), Options{})
		first := execute(t, bot, Input{Text: "a"})
		settleTurn(t, w, first, `{"Said":["a","b"]}`, payload)
		execute(t, bot, Input{Text: "c"})
		var texts []string
		for res, err := range bot.Turns(t.Context(), "s") {
			if err != nil {
				wantErr(t, err, checkpoint.ErrDamaged)
				texts = append(texts, "damaged")
				continue
			}
			texts = append(texts, res.Input.Text)
		}
		if got := strings.Join(texts, " "); got != "c damaged a" {
			t.Errorf("%s: turns %q", payload, got)
		}
		_, err := bot.Execute(t.Context(), "s", Input{Text: "b", RequestID: "r"}, nil)
		wantErr(t, err, orchestrator.ErrRequestReused)
	}
}

// settle appends a turn of the bot echo with that payload, as the answer to request r.
func settleTurn(t testing.TB, w world, before *Result, state, payload string) {
	t.Helper()
	appendTurn(t, w, before, state, payload, checkpoint.AppendOptions{Release: true})
}

func appendTurn(t testing.TB, w world, before *Result, state, payload string, o checkpoint.AppendOptions) {
	t.Helper()
	c, err := seize(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: "echo", Session: "s"}, "another", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	cp := *c.Last
	cp.Turn, cp.RunID, cp.RequestID = before.Turn+1, "by hand", "r"
	cp.State, cp.Payload = json.RawMessage(state), json.RawMessage(payload)
	if err := w.Checkpoints.Append(t.Context(), c.Lease, cp, o); err != nil {
		t.Fatal(err)
	}
}
