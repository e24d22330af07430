package oncehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/retry"
)

// A bot that asks two questions in one intent and one in the next dies at each step. What is recorded is not asked
// again, and what the turn settles is the same.
func TestKilledAnywhere(t *testing.T) {
	for _, tt := range []struct {
		step  string
		n     int
		again string // what the next process may ask again: the reply was not recorded
	}{
		{"ledger.Record", 1, "one"},
		{"ledger.Record", 2, "two"},
		{"ledger.Record", 3, "three"},
		{"work", 1, ""},
		{"snapshot.Save", 1, ""},
		{"more", 1, ""},
		{"checkpoint.Append", 1, ""},
	} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %d before %t", tt.step, tt.n, before), func(t *testing.T) {
				m := newModel(t, echo)
				asks := func(questions ...string) func(context.Context, *Turn) error {
					return func(ctx context.Context, t *Turn) error {
						ctx = oncehttp.With(ctx, t, "model")
						for _, q := range questions {
							said, err := m.ask(ctx, m.recorded(nil), q)
							if err != nil {
								return err
							}
							t.State.Said = append(t.State.Said, said)
						}
						return nil
					}
				}
				d := Def{
					Name: "bot", Iterate: true, First: "work",
					Intents: orchestrator.Intents[State]{
						"work": {Run: asks("one", "two"), Next: orchestrator.To("more")},
						"more": {Run: asks("three"), Next: orchestrator.End},
					},
				}
				in := orchestrator.Input{RequestID: "r"}
				var w orchestratortest.World
				first := orchestratortest.Start(&w, d, nil)
				if before {
					first.DieBefore(tt.step, tt.n)
				} else {
					first.DieAfter(tt.step, tt.n)
				}
				_, _ = first.Bot.Execute(t.Context(), "s", in, nil)
				if err := first.Expire(t.Context()); err != nil {
					t.Fatal(err)
				}
				res, err := orchestratortest.Start(&w, d, nil).Bot.Execute(t.Context(), "s", in, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := []string{"reply to one", "reply to two", "reply to three"}
				if !slices.Equal(res.State.Said, want) {
					t.Errorf("said %q", res.State.Said)
				}
				asked := []string{"one", "two", "three"}
				if before && tt.again != "" {
					asked = append(asked, tt.again)
				}
				m.wantAsked(t, asked...)
			})
		}
	}
}

// Equal questions are counted, and a fan-out and goroutines ask at once. Each is asked once, and gets its own reply.
func TestManyAtOnce(t *testing.T) {
	var mu sync.Mutex
	count := 0
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, question string) {
		mu.Lock()
		defer mu.Unlock()
		count++
		_, _ = fmt.Fprint(w, question, " ", count)
	})
	const same = 5
	ask := func(ctx context.Context, t *Turn) error {
		item := orchestrator.Item[int](t)
		ctx = oncehttp.With(ctx, t, "model")
		said, errs := make([]string, same), make([]error, same)
		var all sync.WaitGroup
		for i := range said {
			all.Go(func() { said[i], errs[i] = m.ask(ctx, m.recorded(nil), fmt.Sprint("item ", item)) })
		}
		all.Wait()
		t.State.Said = append(t.State.Said, said...)
		return errors.Join(errs...)
	}
	d := Def{
		Name: "bot", Iterate: true,
		Route: func(_ context.Context, t *Turn) (orchestrator.Next, error) {
			if len(t.Ran) > 0 {
				return orchestrator.End, nil
			}
			return orchestrator.ForEach("work", 1, 2, 3, 4), nil
		},
		Merge: func(base State, branches []State) (State, error) {
			for _, b := range branches {
				base.Said = append(base.Said, b.Said...)
			}
			return base, nil
		},
		Intents: orchestrator.Intents[State]{"work": {Run: ask}},
	}
	var w orchestratortest.World
	first := orchestratortest.Start(&w, d, nil)
	first.DieBefore("Merge", 1)
	if _, err := first.Bot.Execute(t.Context(), "s", orchestrator.Input{}, nil); err == nil {
		t.Fatal("the process did not die")
	}
	if err := first.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := orchestratortest.Start(&w, d, nil).Bot.Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "calls", count, 4*same)
	slices.Sort(res.State.Said)
	mustEqual(t, "different replies", len(slices.Compact(res.State.Said)), 4*same)
}

// Equal calls of one intent get their replies again, each once.
func TestEqualCalls(t *testing.T) {
	n := 0
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		n++
		_, _ = fmt.Fprint(w, "sample ", n)
	})
	res, err := resumed(t, single(func(ctx context.Context, t *Turn) error {
		t.State.Said = nil
		ctx = oncehttp.With(ctx, t, "model")
		for range 3 {
			said, err := m.ask(ctx, m.recorded(nil), "draw")
			if err != nil {
				return err
			}
			t.State.Said = append(t.State.Said, said)
		}
		return nil
	}))
	if err != nil || !slices.Equal(res.State.Said, []string{"sample 1", "sample 2", "sample 3"}) || n != 3 {
		t.Errorf("%v, %+v after %d calls", err, res, n)
	}
}

// Under one name of two contexts, the second of two equal calls is refused, and not taken for the first.
func TestOneNameTwice(t *testing.T) {
	m := newModel(t, echo)
	_, _, err := once(t, func(ctx context.Context, t *Turn) error {
		_, first := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "one")
		_, other := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "two")
		_, named := m.ask(oncehttp.With(ctx, t, "another"), m.recorded(nil), "one")
		if err := errors.Join(first, other, named); err != nil {
			return err
		}
		_, err := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "one")
		return err
	})
	if !errors.Is(err, ledger.ErrRepeated) {
		t.Errorf("%v, want %v", err, ledger.ErrRepeated)
	}
}

// A model that is asked something else after a resume is asked.
func TestOtherQuestion(t *testing.T) {
	m := newModel(t, echo)
	attempt := 0
	res, err := resumed(t, single(func(ctx context.Context, t *Turn) error {
		attempt++
		said, err := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), fmt.Sprint("attempt ", attempt))
		t.State.Said = []string{said}
		return err
	}))
	if err != nil || !slices.Equal(res.State.Said, []string{"reply to attempt 2"}) {
		t.Errorf("%v, %+v", err, res)
	}
	m.wantAsked(t, "attempt 1", "attempt 2")
}

// The retry of an SDK is the same call: after a crash it is the first one, and it is recorded.
func TestRetryOfClient(t *testing.T) {
	fails := 2
	m := newModel(t, func(w http.ResponseWriter, r *http.Request, question string) {
		if fails > 0 {
			fails--
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		echo(w, r, question)
	})
	res, err := resumed(t, single(func(ctx context.Context, t *Turn) error {
		ctx = oncehttp.With(ctx, t, "model")
		for {
			said, err := m.ask(ctx, m.recorded(nil), "one")
			if err == nil {
				t.State.Said = []string{said}
				return nil
			}
			if err.Error() != "429 Too Many Requests" || said != "busy\n" {
				return err
			}
		}
	}))
	if err != nil || !slices.Equal(res.State.Said, []string{"reply to one"}) {
		t.Errorf("%v, %+v", err, res)
	}
	m.wantAsked(t, "one", "one", "one")
}

// A reply that Keep does not want is passed on, and the intent that is tried again asks again.
func TestKeep(t *testing.T) {
	replies := []string{"no JSON", `{"good":true}`}
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, replies[0])
		replies = replies[1:]
	})
	client := m.recorded(&oncehttp.Options{Keep: func(r oncehttp.Reply) bool {
		return r.Status == 200 && strings.HasPrefix(string(r.Body), "{")
	}})
	d := single(nil)
	d.Intents["work"] = orchestrator.Intent[State]{
		Retry: retry.Policy{Attempts: 2},
		Run: func(ctx context.Context, t *Turn) error {
			said, err := m.ask(oncehttp.With(ctx, t, "model"), client, "one")
			t.State.Said = append(t.State.Said, said)
			if err == nil && said == "no JSON" {
				err = errors.New("unusable")
			}
			return err
		},
	}
	l := new(ledger.Memory)
	res, err := start(t, d, l, io.Discard).Execute(t.Context(), "s", orchestrator.Input{}, nil)
	if err != nil || !slices.Equal(res.State.Said, []string{`{"good":true}`}) || len(effects(t, l)) != 1 {
		t.Errorf("%v, %+v", err, res)
	}
}

// A model says nonsense once, and then it is repaired. Whoever tries the turn again asks it once: the intent itself,
// and the same request. With KeepOnRetry each gets the nonsense again.
func TestRepaired(t *testing.T) {
	in := orchestrator.Input{RequestID: "r"}
	for _, by := range []string{"the intent", "the request"} {
		for _, keep := range []bool{false, true} {
			asked := 0
			m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
				if asked++; asked == 1 {
					_, _ = io.WriteString(w, "nonsense")
					return
				}
				_, _ = io.WriteString(w, "sense")
			})
			client := m.recorded(&oncehttp.Options{KeepOnRetry: keep})
			d := single(nil)
			d.Intents["work"] = orchestrator.Intent[State]{Run: func(ctx context.Context, t *Turn) error {
				said, err := m.ask(oncehttp.With(ctx, t, "model"), client, "one")
				if t.State.Said = append(t.State.Said, said); err == nil && said == "nonsense" {
					err = errors.New("unusable")
				}
				return err
			}}
			if by == "the intent" {
				work := d.Intents["work"]
				work.Retry.Attempts = 2
				d.Intents["work"] = work
			}
			bot := start(t, d, new(ledger.Memory), io.Discard)
			res, err := bot.Execute(t.Context(), "s", in, nil)
			if by != "the intent" {
				if err == nil {
					t.Fatalf("%s: nonsense has settled", by)
				}
				res, err = bot.Execute(t.Context(), "s", in, nil)
			}
			if keep {
				if err == nil || asked != 1 {
					t.Errorf("%s: %+v, %v, asked %d times", by, res, err, asked)
				}
				continue
			}
			if err != nil || !slices.Equal(res.State.Said, []string{"sense"}) || asked != 2 {
				t.Errorf("%s: %+v, %v, asked %d times", by, res, err, asked)
			}
		}
	}
}

// Of a call nothing is stored but its reply.
func TestNoSecrets(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		mustEqual(t, "Authorization", r.Header.Get("Authorization"), "Bearer secret-key")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "session=secret-cookie")
		_, _ = io.WriteString(w, `{"text":"hello"}`)
	})
	_, all, err := once(t, func(ctx context.Context, t *Turn) error {
		_, err := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "secret-question")
		return err
	})
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %+v", err, all)
	}
	e := all[0]
	mustEqual(t, "name", e.Name, "model")
	mustEqual(t, "class", e.Class, ledger.Pure)
	mustEqual(t, "result", string(e.Result), `{"status":200,"type":"application/json","text":"{\"text\":\"hello\"}"}`)
	if row := fmt.Sprintf("%+v %s", e, e.Args); strings.Contains(row, "secret") {
		t.Errorf("the ledger has %s", row)
	}
}

// A request that says neither With nor Unrecorded is not sent. One that is Unrecorded is none of the ledger's business.
func TestWithoutTurn(t *testing.T) {
	m := newModel(t, echo)
	if _, err := m.ask(t.Context(), m.recorded(nil), "lost"); !errors.Is(err, oncehttp.ErrNoTurn) {
		t.Errorf("%v, want %v", err, oncehttp.ErrNoTurn)
	}
	_, all, err := once(t, func(ctx context.Context, t *Turn) error {
		ctx = oncehttp.With(ctx, t, "model")
		if !oncehttp.Recorded(ctx) || oncehttp.Recorded(oncehttp.Unrecorded(ctx)) {
			return errors.New("Recorded is wrong")
		}
		_, err := m.ask(oncehttp.Unrecorded(ctx), m.recorded(nil), "unrecorded")
		return err
	})
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %+v", err, all)
	}
	said, err := m.ask(oncehttp.With(t.Context(), new(Turn), "model"), m.recorded(nil), "by hand")
	if err != nil || said != "reply to by hand" {
		t.Errorf("by hand: %q, %v", said, err)
	}
	m.wantAsked(t, "by hand", "unrecorded")
}

// Without a ledger, and in Begin, a call is refused before it is sent.
func TestRefused(t *testing.T) {
	m := newModel(t, echo)
	ask := func(ctx context.Context, t *Turn) error {
		_, err := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "one")
		return err
	}
	bot, err := orchestrator.New(single(ask), new(checkpoint.Memory),
		&orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(t.Context(), "s", orchestrator.Input{}, nil); !errors.Is(err, orchestrator.ErrNoLedger) {
		t.Errorf("%v, want %v", err, orchestrator.ErrNoLedger)
	}
	d := single(func(context.Context, *Turn) error { return nil })
	d.Begin = ask
	_, err = start(t, d, new(ledger.Memory), io.Discard).Execute(t.Context(), "s", orchestrator.Input{}, nil)
	if !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("%v, want %v", err, ledger.ErrInvalid)
	}
	m.wantAsked(t)
}

// Two Recorders, one in the SDK and one in its client, record one effect.
func TestTwoRecorders(t *testing.T) {
	m := newModel(t, echo)
	outer := &http.Client{Transport: oncehttp.New(nil).Transport(m.recorded(nil).Transport)}
	_, all, err := once(t, func(ctx context.Context, t *Turn) error {
		_, err := m.ask(oncehttp.With(ctx, t, "model"), outer, "one")
		return err
	})
	if err != nil || len(all) != 1 {
		t.Errorf("%v, %+v", err, all)
	}
}
