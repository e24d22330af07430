package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Branches record while other branches are saved.
func TestRecordInBranches(t *testing.T) {
	l := new(watchedLog)
	d := Def{Name: "echo", Intents: Intents{}}
	var names []string
	for i := range 8 {
		name := fmt.Sprint("b", i)
		names = append(names, name)
		d.Intents[name] = Intent{Run: func(ctx context.Context, t *Turn) error {
			for range 20 * (i + 1) {
				if err := t.Record(ctx, turnlog.ToolReceived, i); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To(names...), nil }
	d.Merge = func(s State, _ []State) (State, error) { return s, nil }
	res := execute(t, newWorld().Start(t, d, Options{TurnLog: l}), Input{Text: "a"})
	all := l.entries(t)
	if want := 2 + 20*36; len(all) != want {
		t.Errorf("%d entries, want %d", len(all), want)
	}
	for _, e := range all {
		if e.Run != res.RunID || e.Turn != 0 || e.Session != "s" || e.Orchestrator != "echo" {
			t.Errorf("entry %+v", e)
		}
	}
}

// B29: a hook that keeps the failure of a Record to itself settles nothing.
func TestRecordFailsInHooks(t *testing.T) {
	lost := errors.New("the log is away")
	for _, hook := range []string{"Route", "Evaluate", "Then"} {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &watchedLog{before: func(_ context.Context, e turnlog.Entry) error {
					if e.Phase == turnlog.LLMComplete {
						return lost
					}
					return nil
				}}
				asks := func(ctx context.Context, t *Turn) (Next, error) {
					_ = t.Record(ctx, turnlog.LLMComplete, nil)
					return orchestrator.End, nil
				}
				d := echo()
				switch in := d.Intents["echo"]; hook {
				case "Route":
					d.Route = asks
				case "Evaluate":
					d.Iterate, d.First, d.Evaluate = true, "echo", asks
				case "Then":
					d.Iterate, d.First, in.Then = true, "echo", asks
					d.Intents["echo"] = in
				}
				w := newWorld()
				bot := w.Start(t, d, Options{TurnLog: l})
				_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
				wantErr(t, err, orchestrator.ErrIndeterminate, lost)
				wantRow(t, w, snapshot.Waiting)
				l.wantPhases(t, "started")
			})
		})
	}
}

// What JSON escapes in an input is no reason to refuse its turn.
func TestInputWithEscapes(t *testing.T) {
	for name, in := range map[string]Input{
		"text":    {Text: strings.Repeat("<", 300<<10)},
		"quotes":  {Text: strings.Repeat(`"`, 500<<10)},
		"data":    {Data: json.RawMessage(`"` + strings.Repeat("<", 300<<10) + `"`)},
		"escapes": {Data: json.RawMessage(`"` + strings.Repeat(`\u0041`, 300<<10) + `"`)},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(watchedLog)
			bot := newWorld().Start(t, echo(), Options{TurnLog: l, Limits: orchestrator.Limits{Input: 4 << 20}})
			_, err := bot.Execute(t.Context(), "s", in, nil)
			if err != nil {
				t.Fatal(fmt.Sprint(err)[:min(300, len(fmt.Sprint(err)))])
			}
			l.wantPhases(t, "started settled(complete)")
		})
	}
}

// Names of the longest kind leave an input its place.
func TestInputWithLongNames(t *testing.T) {
	l := new(watchedLog)
	name := strings.Repeat("\x01", 512)
	d := echo()
	limits := orchestrator.Limits{Input: 4 << 20, TurnTimeout: time.Hour}
	bot := newWorld().Start(t, d, Options{TurnLog: l, Limits: limits})
	most := turnlog.MaxState - 16<<10 - 2
	if _, err := bot.Execute(t.Context(), name, Input{Text: strings.Repeat("x", most)}, nil); err != nil {
		t.Error(err)
	}
	l.wantPhases(t, "started settled(complete)")
}

// A run whose payload this process cannot read is abandoned. The log has its beginning already.
func TestAbandonUnreadable(t *testing.T) {
	for name, spoil := range map[string]func(doc map[string]any){
		"later version": func(doc map[string]any) { doc["v"] = 99 },
		"damaged":       func(doc map[string]any) { doc["born"] = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				w := newWorld()
				// The run is saved later than its session was claimed.
				l.crashAs(t, w, "tool", func(context.Context, *Turn) error { time.Sleep(time.Second); return nil })
				editRun(t, w, "agent", spoil, nil)
				bot := w.Start(t, agent(), Options{TurnLog: registered(l)})
				if err := abandon(t, bot, "s"); err != nil {
					t.Error(err)
				}
				l.wantPhases(t, "started llm-complete settled(cancelled)")
				wantRow(t, w, "")
			})
		})
	}
}

// A turn that fails because another turn took too long has not taken too long itself.
func TestLoggedTimeoutOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		slow := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, _ *Turn) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}}}
		inner := newWorld().Start(t, slow, Options{Limits: orchestrator.Limits{TurnTimeout: time.Second}})
		d := Def{Name: "agent", Intents: Intents{"asks": {Run: func(ctx context.Context, _ *Turn) error {
			_, err := inner.Execute(ctx, "s", Input{Text: "a"}, nil)
			return err
		}}}}
		bot := newWorld().Start(t, d, Options{TurnLog: l, Limits: orchestrator.Limits{TurnTimeout: time.Hour}})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
		t.Log(err)
		l.wantPhases(t, "started settled(error)")
	})
}

// lateState is a state that is made into JSON when the test says so.
type lateState struct{ entered, goOn chan struct{} }

func (s lateState) MarshalJSON() ([]byte, error) {
	close(s.entered)
	<-s.goOn
	return []byte("1"), nil
}

// A goroutine that outlives its function records nothing after the end of the turn.
func TestRecordOutlivesTheTurn(t *testing.T) {
	l := new(watchedLog)
	late := lateState{make(chan struct{}), make(chan struct{})}
	var over sync.WaitGroup
	var said error
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
		ctx = context.WithoutCancel(ctx)
		over.Go(func() { said = t.Record(ctx, turnlog.ToolReceived, late) })
		<-late.entered
		return nil
	}}
	d.Deliver = func(context.Context, *Result) error {
		close(late.goOn)
		over.Wait()
		return nil
	}
	execute(t, newWorld().Start(t, d, Options{TurnLog: l}), Input{Text: "a"})
	if said == nil {
		t.Error("it is recorded")
	}
	l.wantPhases(t, "started settled(complete)")
}

// unlogged leaves the run of a settled turn whose end the log did not take.
func (l *watchedLog) unlogged(t testing.TB, w world, d Def) {
	t.Helper()
	l.before = func(_ context.Context, e turnlog.Entry) error {
		if e.Phase == turnlog.Settled {
			return turnlog.ErrRefused
		}
		return nil
	}
	execute(t, w.Start(t, d, Options{TurnLog: registered(l)}), Input{Text: "a"})
	wantRow(t, w, snapshot.Running)
	l.before = nil
}

// The run of a settled turn is left, and this process cannot read it. Its turn says how it has ended.
func TestUnreadableLeftover(t *testing.T) {
	const whole = "started llm-complete tool-dispatched peer-call tool-received settled(complete)"
	for by, do := range leftoverActs() {
		for with, spoil := range map[string]func(doc map[string]any){
			"later version": func(doc map[string]any) { doc["v"] = 99 },
			"damaged":       func(doc map[string]any) { doc["born"] = -1 },
		} {
			t.Run(by+", "+with, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := new(watchedLog)
					w := newWorld()
					l.unlogged(t, w, agent())
					editRun(t, w, "agent", spoil, nil)
					if err := do(t.Context(), w.Start(t, agent(), Options{TurnLog: registered(l)})); err != nil {
						t.Error(err)
					}
					wantRow(t, w, "")
					if by == "Force" {
						l.wantPhases(t, whole+" "+whole)
					} else {
						l.wantPhases(t, whole)
					}
				})
			})
		}
	}
}

// leftoverActs are calls that find the run of a settled turn.
func leftoverActs() map[string]func(context.Context, *Bot) error {
	return map[string]func(context.Context, *Bot) error{
		"Delete": func(ctx context.Context, bot *Bot) error { return bot.Delete(ctx, "s") },
		"Abandon": func(ctx context.Context, bot *Bot) error {
			_, err := bot.Abandon(ctx, "s", "")
			return err
		},
		"Recover": func(ctx context.Context, bot *Bot) error {
			_, err := bot.Recover(ctx, "s")
			return err
		},
		"Force": func(ctx context.Context, bot *Bot) error {
			_, err := bot.Execute(ctx, "s", Input{Text: "b"}, &orchestrator.CallOptions{Force: true})
			return err
		},
	}
}

// A process would lose something of the settled turn, so Respond cannot answer. The end waits for a process that can.
// Who ends or forces the session does not wait.
func TestRespondDrifts(t *testing.T) {
	for by, do := range leftoverActs() {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				w := newWorld()
				l.before = func(_ context.Context, e turnlog.Entry) error {
					if e.Phase == turnlog.Settled {
						return turnlog.ErrRefused
					}
					return nil
				}
				richer, err := orchestrator.New(orchestrator.Definition[map[string]json.RawMessage]{
					Name: "agent", Intents: map[string]orchestrator.Intent[map[string]json.RawMessage]{"model": {
						Run: func(_ context.Context, t *orchestrator.Turn[map[string]json.RawMessage]) error {
							t.State = map[string]json.RawMessage{"Said": json.RawMessage(`["x"]`), "Richer": json.RawMessage("true")}
							return nil
						},
					}},
				}, w.Checkpoints, &Options{Snapshots: w.Snapshots, TurnLog: l, Logger: quiet()})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := richer.Execute(t.Context(), "s", Input{Text: "a"}, nil); err != nil {
					t.Fatal(err)
				}
				wantRow(t, w, snapshot.Running)
				l.before = nil
				d := agent()
				d.Respond = func(res *Result) any { return res.State.Said }
				err = do(t.Context(), w.Start(t, d, Options{TurnLog: registered(l)}))
				if by == "Recover" || by == "Abandon" {
					if _, ok := errors.AsType[*orchestrator.DriftError](err); !ok {
						t.Errorf("got %v", err)
					}
					wantRow(t, w, snapshot.Running)
					l.wantPhases(t, "started")
					return
				}
				if err != nil {
					t.Error(err)
				}
				wantRow(t, w, "")
				all := l.entries(t)
				if got := phasesOf(all[:2]); got != "started settled(complete)" {
					t.Errorf("phases %q", got)
				} else if respond := ended(all[1]).Respond; !turnlog.Same(respond, json.RawMessage(`["x"]`)) {
					t.Errorf("respond %s", respond)
				}
			})
		})
	}
}

// The run of a settled turn is left, and damaged in the store. The end of its turn is recorded before the reply is
// handed over.
func TestDamagedLeftover(t *testing.T) {
	for by, do := range leftoverActs() {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				w := newWorld()
				d := agent()
				d.Deliver = func(context.Context, *Result) error {
					if got := phasesOf(l.entries(t)); !strings.HasSuffix(got, "settled(complete)") {
						t.Errorf("handed over after %q", got)
					}
					return nil
				}
				l.unlogged(t, w, d)
				damaged := w
				damaged.Snapshots = damagedRuns{w.Snapshots}
				bot := damaged.Start(t, d, Options{TurnLog: registered(l)})
				err := do(t.Context(), bot)
				if by == "Recover" { // a drain leaves a damaged session alone
					wantErr(t, err, snapshot.ErrDamaged)
					return
				}
				if err != nil {
					t.Error(err)
				}
				got := phasesOf(l.entries(t))
				if strings.Count(got, "settled(complete)") != strings.Count(got, "started") {
					t.Errorf("phases %q", got)
				}
			})
		})
	}
}

// damagedRuns is a store whose runs are damaged.
type damagedRuns struct{ snapshot.Store }

func (s damagedRuns) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Store.Runs(ctx, q) {
			if err == nil {
				err = snapshot.Damaged(r.Key, errors.New("parts"))
				r.Payload, r.Parts = nil, nil
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s damagedRuns) Adopt(
	ctx context.Context, k snapshot.Key, f lock.Fence, attempts int,
) (snapshot.Run, error) {
	r, err := s.Store.Adopt(ctx, k, f, attempts)
	if err == nil {
		err = snapshot.Damaged(k, errors.New("parts"))
		r = snapshot.Run{Key: r.Key, ID: r.ID}
	}
	return r, err
}

// The same input comes again after a failure, and its entries are later than those of the first attempt, however fast
// those came.
func TestBeginsAnewAfterFastPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		w := newWorld()
		d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
			for range 5000 {
				if err := t.Record(ctx, turnlog.ToolReceived, nil); err != nil {
					return err
				}
			}
			return errors.New("boom")
		}}}}
		bot := w.Start(t, d, Options{TurnLog: l})
		in := Input{RequestID: "r", Text: "a"}
		for range 2 {
			if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
				t.Error("it settled")
			}
		}
		all := l.entries(t)
		for i, e := range all[1:] {
			if e.Phase == turnlog.Started && i != 5001 {
				t.Errorf("it started again as entry %d, %v before the end", i+1, all[len(all)-1].At.Sub(e.At))
			}
		}
	})
}

// A process that keeps no runs dies before the end of its turn is recorded. The end comes before the reply.
func TestVolatileReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(watchedLog)
		w := newWorld()
		w.Snapshots = nil
		d := echo()
		d.Deliver = func(context.Context, *Result) error {
			if got := phasesOf(l.entries(t)); got != "started settled(complete)" {
				t.Errorf("handed over after %q", got)
			}
			return nil
		}
		l.before = func(_ context.Context, e turnlog.Entry) error {
			if e.Phase == turnlog.Settled {
				return turnlog.ErrRefused
			}
			return nil
		}
		if _, err := w.Start(t, d, Options{TurnLog: l}).Execute(t.Context(), "s", Input{Text: "a"}, nil); err != nil {
			t.Fatal(err)
		}
		l.before = nil
		outcome, err := w.Start(t, d, Options{TurnLog: l}).Recover(t.Context(), "s")
		if outcome != "delivered" || err != nil {
			t.Errorf("recovered %s, %v", outcome, err)
		}
	})
}

// Abandon, and a client that goes, without a snapshot store.
func TestVolatileEnds(t *testing.T) {
	for _, by := range []string{"Abandon", "client"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				w := newWorld()
				w.Snapshots = nil
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var bot *Bot
				d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, _ *Turn) error {
					switch by {
					case "Abandon":
						if _, err := bot.Abandon(context.Background(), "s", ""); err != nil {
							return err
						}
					case "client":
						cancel()
					}
					<-ctx.Done()
					return context.Cause(ctx)
				}}}}
				bot = w.Start(t, d, Options{TurnLog: l})
				var heard diary
				_, err := bot.Execute(ctx, "s", Input{Text: "a"}, &orchestrator.CallOptions{OnEvent: heard.Note})
				if err == nil || !strings.HasSuffix(heard.Kinds(), "turn.failed") {
					t.Errorf("told %v, after %s", err, heard.Kinds())
				}
				l.wantPhases(t, "started settled(cancelled)")
			})
		})
	}
}

// A damaged run that is abandoned has an end in the log, and its listeners hear of it.
func TestAbandonDamaged(t *testing.T) {
	for by, do := range leftoverActs() {
		if by != "Abandon" && by != "Delete" {
			continue
		}
		t.Run(by, func(t *testing.T) {
			l := new(watchedLog)
			w := newWorld()
			l.crash(t, w, "tool")
			damaged := w
			damaged.Snapshots = damagedRuns{w.Snapshots}
			bot := damaged.Start(t, agent(), Options{TurnLog: registered(l)})
			var heard diary
			defer bot.Subscribe(heard.Note)()
			if err := do(t.Context(), bot); err != nil {
				t.Error(err)
			}
			l.wantPhases(t, "started llm-complete settled(cancelled)")
			if heard.Kinds() != "turn.failed" {
				t.Errorf("heard %q", heard.Kinds())
			}
			wantRow(t, w, "")
		})
	}
}

// The reason of an end is the text that the run has, redacted.
func TestReasonIsRedacted(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		l := new(watchedLog)
		w := newWorld()
		if volatile {
			w.Snapshots = nil
		}
		d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(context.Context, *Turn) error {
			return errors.New("card 4711")
		}}}}
		bot := w.Start(t, d, Options{TurnLog: l, Effects: orchestrator.Effects{
			SumKey: []byte(strings.Repeat("k", 32)),
			Redact: func(e ledger.Effect) ledger.Effect {
				e.Error = strings.ReplaceAll(e.Error, "4711", "…")
				return e
			},
		}})
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil); err == nil {
			t.Error("it settled")
		}
		all := l.wantPhases(t, "started settled(error)")
		if reason := ended(all[1]).Reason; !strings.Contains(reason, "card …") {
			t.Errorf("reason %q", reason)
		}
	}
}

// A log that panics is one that does not answer: the turn is left in flight. If the caller's state panics, the turn
// fails.
func TestRecordPanics(t *testing.T) {
	for _, phase := range []string{turnlog.LLMComplete, turnlog.Settled, ""} {
		synctest.Test(t, func(t *testing.T) {
			var logs strings.Builder
			l := &watchedLog{before: func(_ context.Context, e turnlog.Entry) error {
				if e.Phase == phase {
					panic("boom")
				}
				return nil
			}}
			d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
				return t.Record(ctx, turnlog.LLMComplete, panics{phase == ""})
			}}}}
			bot := newWorld().Start(t, d, Options{TurnLog: l, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
			if phase == turnlog.Settled {
				if err != nil {
					t.Errorf("the turn has settled: %v", err)
				}
			} else if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok {
				t.Errorf("got %v", err)
			}
			switch phase {
			case "":
				l.wantPhases(t, "started settled(error)")
				return
			case turnlog.LLMComplete:
				wantErr(t, err, orchestrator.ErrIndeterminate)
				l.wantPhases(t, "started")
			}
			wantRuns(t, bot, 1)
			if n := strings.Count(logs.String(), "turn log panicked"); n != 1 {
				t.Errorf("logged %d times: %s", n, logs.String())
			}
			holdsNone(t, logs.String(), "boom")
		})
	}
}

type panics struct{ now bool }

func (p panics) MarshalJSON() ([]byte, error) {
	if p.now {
		panic("boom")
	}
	return []byte("1"), nil
}

// Another owner has recorded the phase in the same millisecond. The entry gets the next one, and there is an end to it.
func TestRecordInTheSameMillisecond(t *testing.T) {
	for taken, ok := range map[int]bool{1: true, 100: true, 101: false} {
		t.Run(fmt.Sprint(taken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var first time.Time
				tries := 0
				l := &watchedLog{before: func(_ context.Context, e turnlog.Entry) error {
					if e.Phase != turnlog.LLMComplete {
						return nil
					}
					if tries++; tries == 1 {
						first = e.At
					}
					if tries <= taken {
						return turnlog.ErrChanged
					}
					return nil
				}}
				d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
					return t.Record(ctx, turnlog.LLMComplete, nil)
				}}}}
				bot := newWorld().Start(t, d, Options{TurnLog: l})
				_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
				if !ok {
					wantErr(t, err, orchestrator.ErrIndeterminate, turnlog.ErrChanged)
					l.wantPhases(t, "started")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				all := l.wantPhases(t, "started llm-complete settled(complete)")
				if at := all[1].At; at.Sub(first) != time.Duration(taken)*time.Millisecond {
					t.Errorf("recorded %v after the first try", at.Sub(first))
				}
			})
		})
	}
}

// Record refuses a function whose context or session is over, and records nothing.
func TestRecordAfterTheEnd(t *testing.T) {
	for _, by := range []string{"client", "Abandon", "between tries"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l := new(watchedLog)
				if by == "between tries" {
					l.before = func(_ context.Context, e turnlog.Entry) error {
						if e.Phase == turnlog.LLMComplete {
							cancel()
							return turnlog.ErrChanged
						}
						return nil
					}
				}
				var bot *Bot
				var said error
				d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, turn *Turn) error {
					switch by {
					case "client":
						cancel()
					case "Abandon":
						if err := abandon(t, bot, "s"); err != nil {
							t.Error(err)
						}
						ctx = context.WithoutCancel(ctx)
					}
					said = turn.Record(ctx, turnlog.LLMComplete, nil)
					return nil
				}}}}
				w := newWorld()
				bot = w.Start(t, d, Options{TurnLog: l})
				_, err := bot.Execute(ctx, "s", Input{Text: "a"}, nil)
				want, phases := context.Canceled, "started settled(complete)" // a turn that nothing is left of settles
				if by == "Abandon" {
					want, phases = orchestrator.ErrAbandoned, "started settled(cancelled)"
					wantErr(t, err, orchestrator.ErrIndeterminate)
				} else if err != nil {
					t.Error(err)
				}
				wantErr(t, said, want)
				l.wantPhases(t, phases)
			})
		})
	}
}

// A turn has failed, and its end cannot be recorded. Its caller hears of the failure. The run stays until the log has
// its end, with the reason that the caller was told.
func TestFailureNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &watchedLog{before: func(_ context.Context, e turnlog.Entry) error {
			if e.Phase == turnlog.Settled {
				return turnlog.ErrRefused
			}
			return nil
		}}
		boom := errors.New("boom")
		d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(context.Context, *Turn) error { return boom }}}}
		w := newWorld()
		bot := w.Start(t, d, Options{TurnLog: l})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
		wantErr(t, err, boom)
		if errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Errorf("got %v", err)
		}
		wantRow(t, w, snapshot.Ended)
		l.wantPhases(t, "started")
		failed := time.Now()
		time.Sleep(time.Hour)
		l.before = nil
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
			t.Errorf("recovered %s, %v", outcome, err)
		}
		wantRow(t, w, "")
		all := l.wantPhases(t, "started settled(error)")
		if end := ended(all[1]); end.Reason != "boom" || all[1].At.After(failed) {
			t.Errorf("settled %+v at %v, and it failed before %v", end, all[1].At, failed)
		}
	})
}

// The log has the end of a turn, and its answer was lost. The process that finds the run records the same entry.
func TestEndIsRecordedOnce(t *testing.T) {
	for want, end := range map[string]func(ctx context.Context) error{
		turnlog.Failed:   func(context.Context) error { return errors.New("boom") },
		turnlog.TimedOut: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(watchedLog)
				lost := true
				l.before = func(ctx context.Context, e turnlog.Entry) error {
					if e.Phase != turnlog.Settled || !lost {
						return nil
					}
					if err := l.Memory.Record(ctx, e); err != nil {
						return err
					}
					return turnlog.ErrRefused
				}
				d := Def{Name: "echo", Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
					for range 5000 { // so that their times are ahead of the clock
						if err := t.Record(ctx, turnlog.ToolReceived, nil); err != nil {
							return err
						}
					}
					return end(ctx)
				}}}}
				w := newWorld()
				bot := w.Start(t, d, Options{TurnLog: l, Limits: orchestrator.Limits{TurnTimeout: time.Second}})
				if _, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil); err == nil {
					t.Error("it settled")
				}
				wantRow(t, w, snapshot.Ended)
				lost = false
				if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
					t.Errorf("recovered %s, %v", outcome, err)
				}
				all := l.entries(t)
				if got := phasesOf(all[5001:]); len(all) != 5002 || got != "settled("+want+")" {
					t.Errorf("%d entries, the last are %s", len(all), got)
				}
			})
		})
	}
}

// A process without a turn log abandons a run, and does not delete it. The log says that it was cancelled.
func TestAbandonedWithoutLog(t *testing.T) {
	l := new(watchedLog)
	w := newWorld()
	l.crash(t, w, "tool")
	keeps := w
	keeps.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.On(
		func(context.Context, faulttest.Call, func(context.Context) error) error {
			return errors.New("not deleted")
		},
		"Delete"))
	if err := abandon(t, keeps.Start(t, agent(), Options{}), "s"); err != nil {
		t.Error(err)
	}
	wantRow(t, w, snapshot.Ended)
	bot := w.Start(t, agent(), Options{TurnLog: registered(l)})
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "cleaned" || err != nil {
		t.Errorf("recovered %s, %v", outcome, err)
	}
	l.wantPhases(t, "started llm-complete settled(cancelled)")
}

// Respond hangs, or ends its goroutine. The turn is settled all the same, and the turn log has no reply.
func TestRespondNeverReturns(t *testing.T) {
	for name, respond := range map[string]func(release chan struct{}) any{
		"hangs": func(release chan struct{}) any { <-release; return nil },
		"ends":  func(chan struct{}) any { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				d := echo()
				d.Respond = func(*Result) any { return respond(release) }
				bot := newWorld().Start(t, d, Options{TurnLog: new(turnlog.Memory)})
				at := time.Now()
				res, err := bot.Stream(t.Context(), "s", Input{Text: "a"}, nil).Result()
				if err != nil || res == nil || time.Since(at) > time.Minute {
					t.Errorf("%v, %v after %v", res, err, time.Since(at))
				}
			})
		})
	}
}
