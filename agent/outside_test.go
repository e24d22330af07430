package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/retry"
)

type loopState struct{ Said []string }

// loops returns a bot whose intent runs a loop, and is tried twice.
func loops(run func(context.Context, *orchestrator.Turn[loopState]) error) orchestrator.Definition[loopState] {
	return orchestrator.Definition[loopState]{Name: "bot", Intents: orchestrator.Intents[loopState]{"work": {
		Run: func(ctx context.Context, t *orchestrator.Turn[loopState]) error {
			return agent.Loop(ctx, t, func(ctx context.Context) error { return run(ctx, t) })
		},
		Retry: retry.Fixed(2, 0),
	}}}
}

// ask asks a model that counts, and costs 1.
func ask(ctx context.Context, asked *atomic.Int32, question any) (string, error) {
	return agent.Recorded(ctx, "model", question, func(context.Context) (string, orchestrator.Usage, error) {
		return fmt.Sprint("reply ", asked.Add(1)), orchestrator.Usage{Input: 1}, nil
	})
}

// A process dies before and after each call of a store, in a loop that asks twice, reads, is declined and pays by each
// class. The next one comes to the same end. Nothing is paid twice, and a reply that was recorded is not asked for
// again.
func TestLoopDiesAnywhere(t *testing.T) {
	for step, times := range map[string]int{
		"ledger.Record": 4, "ledger.Issue": 4, "ledger.Finish": 4, "work": 1, "snapshot.Begin": 1,
		"checkpoint.Append": 1,
	} {
		for n := 1; n <= times; n++ {
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %d before %t", step, n, before), func(t *testing.T) {
					loopDies(t, step, n, before)
				})
			}
		}
	}
}

func loopDies(t *testing.T, step string, n int, before bool) {
	var asked, looked atomic.Int32
	var mu sync.Mutex
	paid := make(map[string]map[string]int) // by tool and key
	pay := func(name string) func(context.Context, string, refundArgs) (string, error) {
		return func(_ context.Context, key string, _ refundArgs) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if paid[name] == nil {
				paid[name] = make(map[string]int)
			}
			if paid[name][key]++; name == "declines" && paid[name][key] == 1 {
				return "", ledger.NotDone(errors.New("declined"))
			}
			return "paid by " + name, nil
		}
	}
	landed := func(_ context.Context, key string) (string, bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return "paid by verify", paid["verify"][key] > 0, nil
	}
	effect := func(name string, class ledger.Class) agent.Tool {
		return agent.Effect[refundArgs, string]{
			Name: name, Class: class, Run: pay(name), Verify: landed, Settles: 1,
		}.Tool()
	}
	tools := []agent.Tool{
		lookup(func(context.Context, refundArgs) (string, error) { return fmt.Sprint("found ", looked.Add(1)), nil }),
		effect("idem", ledger.Idempotent), effect("verify", ledger.Verifiable), effect("ask", ledger.Ask),
		effect("declines", ledger.Idempotent),
	}
	d := loops(func(ctx context.Context, turn *orchestrator.Turn[loopState]) error {
		said := []string{turn.Input.Text}
		for round := range 2 {
			reply, err := ask(ctx, &asked, said)
			if err != nil {
				return err
			}
			if said = append(said, reply); round > 0 {
				break
			}
			for _, tool := range tools {
				r, err := agent.Once(ctx, tool, agent.Call{ID: reply, Args: json.RawMessage(`{"order":"A1"}`)})
				if err != nil {
					r.Text = "error" // and on, as a library may do
				}
				said = append(said, r.Text)
			}
		}
		turn.State.Said = said
		return nil
	})
	in := orchestrator.Input{RequestID: "r", Text: "pay"}
	var w orchestratortest.World
	first := orchestratortest.Start(&w, d, nil)
	if before {
		first.DieBefore(step, n)
	} else {
		first.DieAfter(step, n)
	}
	_, _ = first.Bot.Execute(t.Context(), "s", in, nil)
	if err := first.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	bot := orchestratortest.Start(&w, d, nil).Bot
	res, err := bot.Execute(t.Context(), "s", in, nil)
	for errors.Is(err, ledger.ErrInDoubt) {
		for e, err := range w.Ledger.Effects(t.Context(), ledger.Query{Open: true}) {
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			ans := ledger.Answer{By: "desk", Landed: paid["ask"][e.ID] > 0, Result: json.RawMessage(`"paid by ask"`)}
			mu.Unlock()
			if e.Class != ledger.Ask {
				continue
			}
			if !ans.Landed {
				ans.Result = nil
			}
			if err := ledger.Resolve(t.Context(), w.Ledger, e.ID, ans); err != nil {
				t.Fatal(err)
			}
		}
		res, err = bot.Execute(t.Context(), "s", in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(res.State.Said, ", ")
	for _, part := range []string{"pay, reply ", "found ", "paid by idem", "paid by verify", "paid by ask"} {
		if strings.Count(got, part) != 1 {
			t.Errorf("said %s", got)
		}
	}
	if declined := strings.Contains(got, "declined"); declined == (total(paid["declines"]) > 1) {
		t.Errorf("said %s, and tried %v", got, paid["declines"])
	}
	if len(paid["idem"]) != 1 || total(paid["verify"]) != 1 || total(paid["ask"]) != 1 {
		t.Errorf("paid %v", paid)
	}
	again := 0
	if step == "ledger.Record" && before && (n == 1 || n == 4) {
		again = 1
	}
	if int(asked.Load()) != 2+again || res.Usage.Input != 2 {
		t.Errorf("asked %d times, used %+v", asked.Load(), res.Usage)
	}
}

func total(all map[string]int) (n int) {
	for _, k := range all {
		n += k
	}
	return n
}

// runLoop runs a loop in a turn.
func runLoop(
	t *testing.T, run func(ctx context.Context, t *orchestrator.Turn[loopState]) error,
) (*orchestrator.Result[loopState], error) {
	t.Helper()
	var w orchestratortest.World
	return orchestratortest.Start(&w, loops(run), nil).Bot.Execute(t.Context(), "s", orchestrator.Input{}, nil)
}

// Which calls and questions are the same, and which are counted.
func TestLoopSame(t *testing.T) {
	var asked, ran atomic.Int32
	tool := agent.Tool{Name: "pay", Run: func(context.Context, agent.Call) (string, error) {
		n := ran.Add(1)
		if n == 1 {
			return "", ledger.NotDone(errors.New("declined"))
		}
		return fmt.Sprint("paid ", n), nil
	}}
	res, err := runLoop(t, func(ctx context.Context, turn *orchestrator.Turn[loopState]) error {
		for _, id := range []string{"a", "a", "a", "b", "", ""} { // the first is declined, and may be tried again
			r, err := agent.Once(ctx, tool, agent.Call{ID: id})
			if err != nil {
				return err
			}
			turn.State.Said = append(turn.State.Said, r.Text)
		}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if _, err := ask(ctx, &asked, "same"); err != nil {
					t.Error(err)
				}
				if r, err := agent.Once(ctx, tool, agent.Call{ID: "c"}); err != nil || r.Text != "paid 6" {
					t.Error(r, err)
				}
			})
		}
		group.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(res.State.Said, ", "); got != "declined, paid 2, paid 2, paid 3, paid 4, paid 5" {
		t.Error(got)
	}
	if asked.Load() != 10 || res.Usage.Input != 10 {
		t.Errorf("asked %d times, used %+v", asked.Load(), res.Usage)
	}
}

// What an effect in doubt comes to, if the library takes its error for a result: the context of the loop has ended, no
// model is asked and nothing is paid, and the turn waits.
func TestLoopInDoubt(t *testing.T) {
	var asked, other atomic.Int32
	doubtful := agent.Tool{Name: "pay", Run: func(context.Context, agent.Call) (string, error) {
		return "", errors.New("connection lost")
	}}
	_, err := runLoop(t, func(ctx context.Context, _ *orchestrator.Turn[loopState]) error {
		_, first := agent.Once(ctx, doubtful, agent.Call{ID: "a"})
		if ctx.Err() == nil || !errors.Is(first, ledger.ErrInDoubt) {
			t.Errorf("%v, %v", ctx.Err(), first)
		}
		_, second := ask(ctx, &asked, "what now")
		_, third := agent.Once(ctx, pay(&other, ledger.Idempotent).Tool(), agent.Call{ID: "b"})
		if !errors.Is(second, ledger.ErrInDoubt) || !errors.Is(third, ledger.ErrInDoubt) {
			t.Errorf("%v, %v", second, third)
		}
		return nil
	})
	if !errors.Is(err, orchestrator.ErrSuspended) || asked.Load() != 0 || other.Load() != 0 {
		t.Errorf("%v; asked %d times, paid %d times", err, asked.Load(), other.Load())
	}
}

// A model that fails, or whose reply cannot be kept, and tools that no loop can run.
func TestLoopBad(t *testing.T) {
	used := orchestrator.Usage{Input: 1}
	large := strings.Repeat("x", ledger.MaxDocument)
	res, err := runLoop(t, func(ctx context.Context, _ *orchestrator.Turn[loopState]) error {
		tries := 0
		for range 2 { // the second attempt of the library has the same question
			got, err := agent.Recorded(ctx, "model", "q", func(context.Context) (string, orchestrator.Usage, error) {
				if tries++; tries == 1 {
					return "", used, errModel
				}
				return "x\x00", used, nil
			})
			if (tries == 1) != errors.Is(err, errModel) || tries == 2 && got != "x\x00" {
				t.Errorf("%q, %v", got, err)
			}
		}
		got, err := agent.Recorded(ctx, "model", "more", func(context.Context) (string, orchestrator.Usage, error) {
			return large, used, nil
		})
		if got != large || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_, err = agent.Recorded(ctx, "model", "panic", func(context.Context) (string, orchestrator.Usage, error) {
			panic("oh")
		})
		if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok {
			t.Error(err)
		}
		r, err := agent.Once(ctx, lookup(func(context.Context, refundArgs) (string, error) { panic("oh") }),
			agent.Call{Args: json.RawMessage(`{"order":"A"}`)})
		if err != nil || r != (agent.Result{Text: "the tool failed", Failed: true}) {
			t.Error(r, err)
		}
		r, err = agent.Once(ctx, agent.Tool{Name: "t", Run: func(context.Context, agent.Call) (string, error) {
			return "", agent.Ran(errors.New("no seat"))
		}}, agent.Call{})
		if err != nil || r != (agent.Result{Text: "no seat", Failed: true}) {
			t.Error(r, err)
		}
		return nil
	})
	if err != nil || res.Usage.Input != 3 {
		t.Error(res, err)
	}
	for what, run := range map[string]func(ctx context.Context) error{
		"waits for somebody": func(ctx context.Context) error {
			_, err := agent.Once(ctx, agent.ClientTool[none]("camera", ""), agent.Call{})
			return err
		},
		"Verifiable without Verify": func(ctx context.Context) error {
			_, err := agent.Once(ctx, agent.Tool{Name: "t", Class: ledger.Verifiable, Run: func(
				context.Context, agent.Call,
			) (string, error) {
				return "", nil
			}}, agent.Call{})
			return err
		},
		"the question of": func(ctx context.Context) error { _, err := ask(ctx, nil, func() {}); return err },
		"the reply of": func(ctx context.Context) error {
			_, err := agent.Recorded(ctx, "model", 1, func(context.Context) (func(), orchestrator.Usage, error) {
				return func() {}, used, nil
			})
			return err
		},
	} {
		var said string
		_, err := runLoop(t, func(ctx context.Context, _ *orchestrator.Turn[loopState]) error {
			if err := run(ctx); err != nil {
				said = err.Error()
			}
			return nil // the turn fails all the same
		})
		if err == nil || !strings.Contains(said, what) {
			t.Errorf("%s: %v, %v", what, said, err)
		}
	}
	if _, err := ask(t.Context(), nil, 1); !errors.Is(err, agent.ErrNoLoop) {
		t.Error(err)
	}
	if _, err := agent.Once(t.Context(), agent.Tool{}, agent.Call{}); !errors.Is(err, agent.ErrNoLoop) {
		t.Error(err)
	}
}

// A model asks a server by a client with an oncehttp.Recorder. The process dies when the reply has come, before a save
// has it. The next process gets the recorded reply. A tool that uses the client is not recorded.
func TestModelWithRecorder(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, asked.Add(1))
	}))
	defer server.Close()
	client := &http.Client{Transport: oncehttp.New(nil).Transport(server.Client().Transport)}
	get := func(ctx context.Context, path string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, nil)
		if err != nil {
			return "", err
		}
		res, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return string(text), err
	}
	definition := func(dies func()) agent.Definition[none] {
		return agent.Definition[none]{
			Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
				text, err := get(ctx, fmt.Sprint("/model", len(r.Said), "-"))
				if err != nil {
					return agent.Reply{}, err
				}
				if dies(); ctx.Err() != nil {
					return agent.Reply{}, ctx.Err()
				}
				if len(r.Said) == 1 {
					return says(text, call("c", "lookup", `{"order":"A"}`))
				}
				return says(last(r).Blocks[0].Text + ", " + text)
			}),
			Tools: []agent.Tool{lookup(func(ctx context.Context, _ refundArgs) (string, error) {
				return get(ctx, "/tool")
			})},
		}
	}
	st := agent.InMemory()
	process, die := context.WithCancel(t.Context())
	first := newAgent(t, definition(die), st)
	in := orchestrator.Input{RequestID: "r", Text: "hello"}
	if _, err := first.Say(process, "s", in, nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Fatal(err)
	}
	o, err := newAgent(t, definition(func() {}), st).Say(t.Context(), "s", in, nil)
	if settled(t, o, err); o.Text != "/tool2, /model3-3" || asked.Load() != 3 {
		t.Errorf("%q, asked %d times", o.Text, asked.Load())
	}
	st = agent.InMemory()
	st.Ledger = nil
	_, err = newAgent(t, definition(func() {}), st).Say(t.Context(), "s", in, nil)
	if !errors.Is(err, orchestrator.ErrNoLedger) || asked.Load() != 3 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}
