// Package turnlogs_test plays turns of a bot whose turn log is at a third party: an object store behind HTTP. A proxy
// between them delays and cuts.
package turnlogs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type (
	turn       = orchestrator.Turn[[]string]
	bot        = orchestrator.Orchestrator[[]string]
	definition = orchestrator.Definition[[]string]
)

// A world is a substrate, and the stores of a bot.
type world struct {
	*substrate
	checkpoints checkpoint.Store
	snapshots   snapshot.Store

	mu  sync.Mutex // protects following field
	ran []string
}

func newWorld(t *testing.T, keep bool) *world {
	return &world{
		substrate: newSubstrate(t, keep), checkpoints: new(checkpoint.Memory), snapshots: new(snapshot.Memory),
	}
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, what)
}

// all are the phases of a turn that nothing disturbs.
const all = "started llm-complete tool-dispatched tool-received settled(complete)"

// agent is a bot that asks a model, and then calls a tool. before is called before it records a phase, and at the end.
func (w *world) agent(before func(phase string)) definition {
	record := func(ctx context.Context, t *turn, phase string) error {
		before(phase)
		w.note(phase)
		return t.Record(ctx, phase, map[string]string{"of": t.Input.Text})
	}
	return definition{
		Name: "agent", First: "model", Iterate: true,
		Intents: orchestrator.Intents[[]string]{
			"model": {Next: orchestrator.To("tool"), Run: func(ctx context.Context, t *turn) error {
				t.State = append(t.State, "model")
				return record(ctx, t, turnlog.LLMComplete)
			}},
			"tool": {Next: orchestrator.End, Run: func(ctx context.Context, t *turn) error {
				t.State = append(t.State, "tool")
				if err := record(ctx, t, turnlog.ToolDispatched); err != nil {
					return err
				}
				if err := record(ctx, t, turnlog.ToolReceived); err != nil {
					return err
				}
				before(turnlog.Settled)
				return nil
			}},
		},
	}
}

// start starts a process of a bot.
func (w *world) start(d definition) *bot {
	w.t.Helper()
	b, err := orchestrator.New(d, w.checkpoints, &orchestrator.Options{
		Snapshots: w.snapshots, TurnLog: w.log, Logger: quiet(),
		Limits: orchestrator.Limits{SettleTimeout: time.Second}, // for so long a call is repeated
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func undisturbed(string) {}

// drain starts another process, which finishes what is left when it is due. It returns the run and its outcome.
func (w *world) drain() (run, outcome string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	var done bootdrain.Run
	err := bootdrain.Watch(ctx, w.start(w.agent(undisturbed)), &bootdrain.Options{
		Logger: quiet(), OnRun: func(r bootdrain.Run) {
			done = r
			cancel()
		},
	})
	if !errors.Is(err, context.Canceled) || done.Err != nil {
		w.t.Fatalf("drained %+v, %v", done, err)
	}
	return done.ID, done.Outcome
}

// again sends the same input to another process.
func (w *world) again() *orchestrator.Result[[]string] {
	w.t.Helper()
	res, err := w.start(w.agent(undisturbed)).Execute(w.t.Context(), "s", input, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// wantNoRun checks that nothing is in flight.
func (w *world) wantNoRun() {
	w.t.Helper()
	for r, err := range w.snapshots.Runs(w.t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "agent"}}) {
		w.t.Errorf("a run is left: %s %s, %v", r.ID, r.Status, err)
	}
}

var input = orchestrator.Input{RequestID: "r", Text: "where is it?"}

// A turn waits for a log that is slow, or slow to close. The log is complete and in order, although its entries arrive
// in any order.
func TestDelays(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"kept connections": true, "new connections": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, keep)
			db := sqlitetest.Open(t, testenv.SQLite(t))
			checkpoints, snapshots := sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil)
			sqlitetest.Exec(t, db, checkpoints.Schema())
			sqlitetest.Exec(t, db, snapshots.Schema())
			w.checkpoints, w.snapshots = checkpoints, snapshots
			w.toxic(`{"type": "latency", "stream": "upstream", "attributes": {"latency": 10, "jitter": 10}}`)
			w.toxic(`{"type": "latency", "stream": "downstream", "attributes": {"latency": 10}}`)
			w.toxic(`{"type": "slow_close", "stream": "upstream", "attributes": {"delay": 3600000}}`)
			w.toxic(`{"name": "down", "type": "slow_close", "stream": "downstream", "attributes": {"delay": 3600000}}`)
			d := w.agent(undisturbed)
			const answers = 8
			d.Intents["model"] = orchestrator.Intent[[]string]{
				Next: orchestrator.To("tool"), Run: func(ctx context.Context, t *turn) error {
					errs := make([]error, answers)
					var wg sync.WaitGroup
					for i := range answers {
						wg.Go(func() { errs[i] = t.Record(ctx, turnlog.LLMComplete, i) })
					}
					wg.Wait()
					return errors.Join(errs...)
				},
			}
			began := time.Now()
			res, err := w.start(d).Execute(t.Context(), "s", input, nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < 5*10*time.Millisecond { // five replies, at least, one after the other
				t.Errorf("nothing was delayed: %v", took)
			}
			w.wantPhases(res.RunID, strings.Replace(all, " llm-complete", strings.Repeat(" llm-complete", answers), 1))
			w.wantNoRun()
		})
	}
}

// cuts are the ways in which a call of the log fails, until the wire is repaired.
var cuts = map[string]func(*world){
	"request reset":   toxic("reset_peer", "upstream", `{"timeout": 0}`),
	"reply reset":     toxic("reset_peer", "downstream", `{"timeout": 0}`),
	"request halved":  toxic("limit_data", "upstream", `{"bytes": 250}`),
	"reply halved":    toxic("limit_data", "downstream", `{"bytes": 9}`),
	"request lost":    toxic("timeout", "upstream", `{"timeout": 0}`),
	"reply lost":      toxic("timeout", "downstream", `{"timeout": 0}`),
	"nothing listens": func(w *world) { w.proxy.Stop() },
}

func toxic(kind, stream, attributes string) func(*world) {
	return func(w *world) {
		w.toxic(`{"type": "` + kind + `", "stream": "` + stream + `", "attributes": ` + attributes + `}`)
	}
}

// arrives reports whether a write arrives in spite of a cut.
func arrives(cut string) bool { return strings.HasPrefix(cut, "reply") }

// onCuts plays a part with each cut.
func onCuts(t *testing.T, play func(w *world, name string, cut func())) {
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			play(w, name, func() { cut(w) })
		})
	}
}

// The wire is cut before a turn has started. The turn fails, definitely, and nothing of the bot runs. After the repair
// the log has the failure, and the same input begins anew.
func TestCutBeforeStarted(t *testing.T) {
	t.Parallel()
	onCuts(t, func(w *world, name string, cut func()) {
		cut()
		_, err := w.start(w.agent(undisturbed)).Execute(w.t.Context(), "s", input, nil)
		failed, ok := errors.AsType[*orchestrator.Error](err)
		if !ok || failed.Op != "log" || errors.Is(err, orchestrator.ErrIndeterminate) {
			w.t.Errorf("got %v", err)
		}
		if len(w.ran) > 0 {
			w.t.Errorf("the bot ran %q", w.ran)
		}
		if got := w.written(turnlog.Started); got > 0 != arrives(name) {
			w.t.Errorf("%d writes have arrived", got)
		}
		w.repair()
		run, outcome := w.drain()
		if outcome != "cleaned" {
			w.t.Errorf("drained: %s", outcome)
		}
		w.wantPhases(run, "started settled(error)")
		w.wantNoRun()
		w.again()
		w.wantPhases(run, "started settled(error) "+all)
	})
}

// The wire is cut when the bot records a phase. The turn is left in flight, and no function of the bot goes on. After
// the repair a drain settles the turn, or the same input does.
func TestCutLater(t *testing.T) {
	t.Parallel()
	const phase = turnlog.ToolDispatched
	onCuts(t, func(w *world, name string, cut func()) {
		first := w.start(w.agent(func(next string) {
			if next == phase {
				cut()
			}
		}))
		_, err := first.Execute(w.t.Context(), "s", input, nil)
		if !errors.Is(err, orchestrator.ErrIndeterminate) {
			w.t.Errorf("got %v", err)
		}
		if !slices.Equal(w.ran, []string{turnlog.LLMComplete, phase}) {
			w.t.Errorf("the bot ran %q", w.ran)
		}
		if got := w.written(phase); got > 0 != arrives(name) {
			w.t.Errorf("%d writes have arrived", got)
		}
		w.repair()
		if name == "request reset" || name == "reply reset" { // these may wait until the run is due
			if _, outcome := w.drain(); outcome != "settled" {
				w.t.Errorf("drained: %s", outcome)
			}
		}
		res := w.again()
		if !slices.Equal(res.State, []string{"model", "tool"}) {
			w.t.Errorf("settled as %q", res.State)
		}
		want := all
		if arrives(name) { // the intent runs again, and what it records is another entry
			want = strings.Replace(all, phase, phase+" "+phase, 1)
		}
		w.wantPhases(res.RunID, want)
		w.wantNoRun()
	})
}

// The wire is cut when the turn has settled. It is settled, and its caller has the result. After the repair a drain
// records the end.
func TestCutBeforeSettled(t *testing.T) {
	t.Parallel()
	onCuts(t, func(w *world, _ string, cut func()) {
		first := w.start(w.agent(func(next string) {
			if next == turnlog.Settled {
				cut()
			}
		}))
		res, err := first.Execute(w.t.Context(), "s", input, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		w.repair()
		run, outcome := w.drain()
		if run != res.RunID || outcome != "cleaned" {
			w.t.Errorf("drained %s: %s", run, outcome)
		}
		w.wantPhases(run, all)
		w.wantNoRun()
	})
}

// The store has done a write, and its reply is cut off. The engine asks again, the turn settles, and there is no second
// entry.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{turnlog.Started, turnlog.ToolDispatched, turnlog.Settled} {
		for _, keep := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, keep %t", phase, keep), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, keep)
				w.onPut = func(arrived string, n int) {
					switch {
					case arrived == phase && n == 1:
						w.toxic(`{"type": "reset_peer", "attributes": {"timeout": 0}}`)
					case arrived == phase:
						w.repair()
					}
				}
				res, err := w.start(w.agent(undisturbed)).Execute(t.Context(), "s", input, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := w.written(phase); got < 2 {
					t.Errorf("%s was written %d times: no reply was lost", phase, got)
				}
				w.wantPhases(res.RunID, all)
				w.wantNoRun()
			})
		}
	}
}

// The wire is cut in the middle of a Record, and comes back in time. The turn settles, and nobody is told.
func TestCutAndBack(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{turnlog.Started, turnlog.ToolDispatched, turnlog.Settled} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			w.onPut = func(arrived string, n int) {
				if arrived == phase && n == 1 {
					w.proxy.Stop()
				}
			}
			w.onRefused = func(n int) {
				if n == 2 {
					w.repair()
				}
			}
			res, err := w.start(w.agent(undisturbed)).Execute(t.Context(), "s", input, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.written(phase); got < 2 {
				t.Errorf("%s was written %d times: no reply was lost", phase, got)
			}
			w.wantPhases(res.RunID, all)
			w.wantNoRun()
		})
	}
}
