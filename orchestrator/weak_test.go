package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The points of docs/decisions/0010 that no other test shows.

// charging is a bot that charges in its first iteration and replies in its second. After the second it may crash.
func charging(charges, replies *atomic.Int32) func(die func()) Def {
	return func(die func()) Def {
		return Def{Name: "charging", Iterate: true, First: "charge", Intents: Intents{
			"charge": {Next: orchestrator.To("reply"), Run: func(_ context.Context, t *Turn) error {
				t.State.N = int(charges.Add(1))
				return nil
			}},
			"reply": {Next: orchestrator.End, Run: func(_ context.Context, t *Turn) error {
				replies.Add(1)
				t.State.A = "charged once"
				if die != nil {
					die()
				}
				return nil
			}},
		}}
	}
}

// A turn has done its work and could not be settled. It is not lost. Only the work after its last save runs again.
func TestDoneAndNotSettled(t *testing.T) {
	var charges, replies atomic.Int32
	d := charging(&charges, &replies)
	w := newWorld()
	w.Crash(t, d, Input{Text: "a", RequestID: "r"})
	bot := w.Start(t, d(nil), Options{})
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("%q, %v", outcome, err)
	}
	if charges.Load() != 1 || replies.Load() != 2 {
		t.Errorf("charged %d times, replied %d times", charges.Load(), replies.Load())
	}
	if res := execute(t, bot, Input{Text: "a", RequestID: "r"}); !res.Replayed || res.State.N != 1 ||
		res.State.A != "charged once" {
		t.Errorf("%+v", res)
	}
	if got := turns(t, bot); !slices.Equal(got, []string{"a"}) {
		t.Errorf("turns %q", got)
	}
}

// A store that does not answer costs a retry, not the turn.
func TestSettleIsRepeated(t *testing.T) {
	var charges, replies atomic.Int32
	w := newWorld()
	var appends atomic.Int32
	w.Checkpoints = faulttest.Checkpoints(w.Checkpoints, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			switch appends.Add(1) {
			case 1:
				return errors.New("connection refused")
			case 2:
				return errors.Join(next(ctx), errors.New("connection reset")) // it took effect
			}
			return next(ctx)
		}, "Append"))
	res := execute(t, w.Start(t, charging(&charges, &replies)(nil), Options{}), Input{Text: "a"})
	if res.State.N != 1 || charges.Load() != 1 || replies.Load() != 1 || appends.Load() != 3 {
		t.Errorf("charged %d times, replied %d times, appended %d times", charges.Load(), replies.Load(),
			appends.Load())
	}
}

// No other caller can finish a turn that has an owner, however many try.
func TestOneOwner(t *testing.T) {
	w := newWorld()
	d, started := hanging()
	ctx, cancel := context.WithCancel(t.Context())
	st := w.Start(t, d, Options{}).Stream(ctx, "s", Input{Text: "a"}, nil)
	<-started
	for range 2 {
		other := w.Start(t, echoAs("hang"), Options{Limits: orchestrator.Limits{LockWait: 50 * time.Millisecond}})
		if outcome, err := other.Recover(t.Context(), "s"); outcome != "held" || err != nil {
			t.Errorf("Recover: %q, %v", outcome, err)
		}
		_, err := other.Resume(t.Context(), "s", nil)
		wantErr(t, err, orchestrator.ErrBusy)
		_, err = other.Execute(t.Context(), "s", Input{Text: "b"}, nil)
		wantErr(t, err, orchestrator.ErrBusy)
	}
	cancel()
	_, err := st.Result()
	wantErr(t, err, orchestrator.ErrIndeterminate)
	other := w.Start(t, echoAs("hang"), Options{})
	if outcome, err := other.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("%q, %v", outcome, err)
	}
	if got := turns(t, other); !slices.Equal(got, []string{"a"}) {
		t.Errorf("turns %q", got)
	}
}

// A decision and the feedback of Evaluate are not asked for again.
func TestVerdictResumed(t *testing.T) {
	var evaluated, routed atomic.Int32
	d := func(die func()) Def {
		return Def{
			Name: "judged", Iterate: true, First: "write",
			Intents: Intents{
				"write": {Run: say("draft"), Next: orchestrator.To("send")}, // Evaluate decides otherwise
				"send":  {Run: say("sent")},
				"fix": {Run: func(_ context.Context, t *Turn) error {
					if die != nil {
						die()
					}
					t.State.Said = append(t.State.Said, "fixed: "+t.Feedback)
					return nil
				}},
			},
			Evaluate: func(_ context.Context, t *Turn) (Next, error) {
				evaluated.Add(1)
				if slices.Contains(t.Ran, "fix") {
					return orchestrator.End, nil
				}
				t.Feedback = "too long"
				return orchestrator.To("fix"), nil
			},
			Route: func(context.Context, *Turn) (Next, error) { routed.Add(1); return orchestrator.To("send"), nil },
		}
	}
	w := newWorld()
	w.Crash(t, d, Input{})
	evaluated.Store(0)
	res, err := w.Start(t, d(nil), Options{}).Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "draft", "fixed: too long")
	if evaluated.Load() != 1 || routed.Load() != 0 {
		t.Errorf("Evaluate ran %d times after the crash, Route %d", evaluated.Load(), routed.Load())
	}
}

// Force goes on with a run of another definition too, and Abandon ends it: no operator deletes rows by hand.
func TestDriftOfRunIsNoDeadlock(t *testing.T) {
	d := unrelated(func(*Def) {})
	force := &orchestrator.CallOptions{Force: true}
	for name, out := range map[string]func(*Bot) error{
		"resume": func(bot *Bot) error { _, err := bot.Resume(t.Context(), "s", force); return err },
		"same request": func(bot *Bot) error {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, force)
			return err
		},
		"next input": func(bot *Bot) error {
			res, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, force)
			if err == nil && res.Resumed == nil {
				err = errors.New("the run in flight was not finished")
			}
			return err
		},
		"abandon": func(bot *Bot) error {
			return errors.Join(abandon(t, bot, "s"), ignore(bot.Execute(t.Context(), "s", Input{Text: "b"}, nil)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
			bot := w.Start(t, d, Options{})
			_, err := bot.Resume(t.Context(), "s", nil)
			if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok {
				t.Errorf("got %v", err)
			}
			if err := out(bot); err != nil {
				t.Error(err)
			}
			wantRuns(t, bot, 0)
		})
	}
}

func ignore(_ *Result, err error) error { return err }

// A new version goes on with the runs of the old one.
func TestVersionResumed(t *testing.T) {
	version := func(v string) func(func()) Def {
		return func(die func()) Def {
			d := steps(die)
			d.Version = v
			return d
		}
	}
	w := newWorld()
	w.Crash(t, version("1"), Input{Text: "a"})
	bot := w.Start(t, version("2")(nil), Options{})
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("%q, %v", outcome, err)
	}
	wantSaid(t, execute(t, bot, Input{Text: "b"}).State, "a one", "a two", "a three", "b one", "b two", "b three")
}

// The row of a turn that Route ends has its state, a step for each iteration, and the intents that ran last.
func TestStepsOfRoutedTurn(t *testing.T) {
	d := steps(nil)
	for name, in := range d.Intents {
		in.Next = Next{}
		d.Intents[name] = in
	}
	d.Route = func(_ context.Context, t *Turn) (Next, error) {
		switch len(t.Ran) {
		case 1:
			return Next{Intents: []string{"two", "three"}, Reason: "both"}, nil
		default:
			return orchestrator.End, nil
		}
	}
	d.Merge = func(base State, branches []State) (State, error) {
		for _, b := range branches {
			base.Said = append(base.Said, b.Said[len(b.Said)-1])
		}
		return base, nil
	}
	w := newWorld()
	res := execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
	wantSaid(t, res.State, "a one", "a two", "a three")
	if len(res.Steps) != 2 || res.Steps[0].Usage.Input != 1 || res.Steps[1].Next.Reason != "both" ||
		res.Steps[1].Usage.Input != 2 {
		t.Errorf("steps %+v", res.Steps)
	}
	cp, err := checkpoint.Load(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: "steps", Session: "s"}, 0)
	if err != nil || !slices.Equal(cp.Route, []string{"two", "three"}) {
		t.Errorf("route %q, %v", cp.Route, err)
	}
}

// A turn that cannot be saved does not go on. Its caller is told.
func TestUnsavedStops(t *testing.T) {
	w := newWorld()
	w.Snapshots = forgetful{w.Snapshots}
	d := steps(nil)
	d.Intents["two"] = Intent{Next: orchestrator.End, Run: func(context.Context, *Turn) error {
		t.Error("the next iteration began before the one before was saved")
		return nil
	}}
	bot := w.Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 20 * time.Millisecond}})
	events := new(diary)
	_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, &orchestrator.CallOptions{OnEvent: events.Note})
	wantErr(t, err, orchestrator.ErrIndeterminate, errFull)
	wantOp(t, err, "save")
	if got := events.Kinds(); !strings.HasSuffix(got, "intent.ended turn.left") {
		t.Errorf("events %s", got)
	}
}

// A forgetful store saves nothing.
type forgetful struct{ snapshot.Store }

func (forgetful) Save(context.Context, snapshot.Run) error { return errFull }

// A turn has settled, and its run could not be deleted. The turn is settled: the next call sees that and deletes the
// run.
func TestSettledAndNotForgotten(t *testing.T) {
	w := newWorld()
	execute(t, worldOf(w.Checkpoints, hoarder{Store: w.Snapshots}).Start(t, echo(), Options{}), Input{Text: "a"})
	bot := w.Start(t, echo(), Options{})
	wantRuns(t, bot, 1)
	if res := execute(t, bot, Input{Text: "b"}); res.Turn != 1 || res.Resumed != nil {
		t.Errorf("%+v", res)
	}
	if got := turns(t, bot); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("turns %q", got)
	}
	wantRuns(t, bot, 0)
}

// Every numbered point of docs/decisions/0010 has a test that exists, or a reason why it cannot occur.
func TestWeakPoints(t *testing.T) {
	const page = "../docs/decisions/0010-weak-points-of-another-orchestrator.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tests := proofs(t)
	named := regexp.MustCompile("`([a-z]+[./](?:Test)?[A-Za-z-]+)`")
	points := make(map[int]bool)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		n, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil || !strings.HasPrefix(line, "|") {
			continue
		}
		if points[n] || len(cells) != 4 {
			t.Errorf("point %d is there twice, or has %d columns", n, len(cells))
		}
		points[n] = true
		names := named.FindAllStringSubmatch(line, -1)
		if len(names) == 0 && !strings.Contains(line, "cannot occur") {
			t.Errorf("point %d has neither a test nor a reason", n)
		}
	}
	for n := range 37 {
		if !points[n+1] {
			t.Errorf("point %d is missing", n+1)
		}
	}
	for _, name := range named.FindAllStringSubmatch(string(text), -1) {
		if !tests[name[1]] {
			t.Errorf("%s is no test", name[1])
		}
	}
}

// proofs returns all tests as "package.Test", and all clauses of the contracts' suites as "suite/clause".
func proofs(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && !d.IsDir(): // a linked worktree; SkipDir would end the walk
			return nil
		case d.Name() == "testdata", d.Name() == ".git":
			return fs.SkipDir
		}
		dir := filepath.Base(filepath.Dir(path))
		switch {
		case strings.HasSuffix(path, "_test.go"):
			return declarations(path, func(n ast.Node) {
				if f, ok := n.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					all[dir+"."+f.Name.Name] = true
				}
			})
		case strings.HasSuffix(path, ".go") && strings.HasSuffix(dir, "test"):
			return declarations(path, func(n ast.Node) {
				if kv, ok := n.(*ast.KeyValueExpr); ok && fmt.Sprint(kv.Key) == "name" {
					if lit, ok := kv.Value.(*ast.BasicLit); ok {
						all[dir+"/"+strings.Trim(lit.Value, `"`)] = true
					}
				}
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func declarations(path string, see func(ast.Node)) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		see(n)
		return true
	})
	return nil
}
