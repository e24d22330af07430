package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// each is a bot that runs "look" for each word of its input, and notes what look found, in the order of the words. A
// branch takes as many seconds as its word has letters.
func each(look func(ctx context.Context, t *Turn, word string) error) Def {
	return Def{
		Name: "each", Iterate: true, First: "split",
		Intents: Intents{
			"split": {Run: say("split"), Then: func(_ context.Context, t *Turn) (Next, error) {
				return orchestrator.ForEach("look", strings.Fields(t.Input.Text)...), nil
			}},
			"look": {
				Run: func(ctx context.Context, t *Turn) error {
					word := orchestrator.Item[string](t)
					select {
					case <-time.After(time.Duration(len(word)) * time.Second):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					if look != nil {
						if err := look(ctx, t, word); err != nil {
							return err
						}
					}
					t.State.Said = append(t.State.Said, fmt.Sprint(t.ItemNumber, word))
					return nil
				},
				Next: orchestrator.End,
			},
		},
		Merge: appended,
	}
}

// appended merges what the branches have said, in their order.
func appended(base State, branches []State) (State, error) {
	n := len(base.Said)
	for _, b := range branches {
		base.Said = append(base.Said, b.Said[n:]...)
	}
	return base, nil
}

// Each item has a branch, so many at once as Limits.FanOut says. The states are merged in the order of the items, in
// whatever order the branches end. Events and steps name the items.
func TestForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		d := each(nil)
		look := d.Intents["look"]
		run := look.Run
		look.Run = func(ctx context.Context, t *Turn) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			t.Emit(orchestrator.Item[string](t))
			return run(ctx, t)
		}
		d.Intents["look"] = look
		events := new(diary)
		bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{FanOut: 2}})
		start := time.Now()
		res, err := bot.Execute(t.Context(), "s", Input{Text: "three a bb a"},
			&orchestrator.CallOptions{OnEvent: events.Note})
		if err != nil {
			t.Fatal(err)
		}
		wantSaid(t, res.State, "split", "1three", "2a", "3bb", "4a")
		if most.Load() != 2 || time.Since(start) != 5*time.Second {
			t.Errorf("%d at once, in %v", most.Load(), time.Since(start))
		}
		if n, is := res.Steps[1].Next.Items("look"); len(res.Steps) != 2 || n != 4 || !is {
			t.Errorf("steps %+v", res.Steps)
		}
		var started, tokens []string
		for _, ev := range events.Events {
			switch {
			case ev.Kind == orchestrator.IntentStarted && ev.Intent == "look":
				started = append(started, fmt.Sprint(ev.Item))
			case ev.Kind == orchestrator.Token:
				tokens = append(tokens, fmt.Sprint(ev.Item, ev.Delta))
			}
		}
		slices.Sort(started)
		slices.Sort(tokens)
		if fmt.Sprint(started, tokens) != "[1 2 3 4] [1three 2a 3bb 4a]" {
			t.Errorf("events of %v, tokens %v", started, tokens)
		}
		// The items may repeat what a user said. An event has their number only.
		if text := events.Text(); !strings.Contains(text, `"look":4`) || strings.Contains(text, `"three"]`) {
			t.Errorf("events %s", text)
		}
	})
}

// A process dies while it looks at the third item. Another process, with a smaller FanOut, does not look again at the
// items that have finished.
func TestForEachResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var mu sync.Mutex // protects following variable
		var looked []string
		d := func(die func()) Def {
			return each(func(_ context.Context, _ *Turn, word string) error {
				if word == "ccc" && die != nil {
					die()
					return errDead
				}
				mu.Lock()
				defer mu.Unlock()
				looked = append(looked, word)
				return nil
			})
		}
		w.Crash(t, d, Input{Text: "dddd a ccc bb a", RequestID: "r"})
		if fmt.Sprint(looked) != "[a a bb dddd]" {
			t.Errorf("looked at %v before the crash", looked) // dddd has run, and could not be saved
		}
		looked = nil
		bot := w.Start(t, d(nil), Options{Limits: orchestrator.Limits{FanOut: 1}})
		res := execute(t, bot, Input{Text: "dddd a ccc bb a", RequestID: "r"})
		wantSaid(t, res.State, "split", "1dddd", "2a", "3ccc", "4bb", "5a")
		if fmt.Sprint(looked) != "[dddd ccc]" {
			t.Errorf("looked again at %v", looked)
		}
	})
}

// The items of a decision survive a crash before any of them has run. A repeated item is an item of its own.
func TestForEachIsSavedWithTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := func(die func()) Def {
			d := each(func(context.Context, *Turn, string) error {
				if die != nil {
					die()
					return errDead
				}
				return nil
			})
			if die == nil {
				split := d.Intents["split"]
				split.Run = func(context.Context, *Turn) error {
					t.Error("split again")
					return nil
				}
				d.Intents["split"] = split
			}
			return d
		}
		w.Crash(t, d, Input{Text: "a <a> a"})
		res, err := w.Start(t, d(nil), Options{}).Resume(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		wantSaid(t, res.State, "split", "1a", "2<a>", "3a")
	})
}

// Without items nothing runs, and the turn goes on after the intent. Merge is not asked then. With one item it is.
func TestForEachOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := each(nil)
		d.Merge = func(base State, branches []State) (State, error) {
			base.N += len(branches)
			return appended(base, branches)
		}
		bot := newWorld().Start(t, d, Options{})
		res := execute(t, bot, Input{Text: ""})
		if n, is := res.Steps[1].Next.Items("look"); n != 0 || !is || res.State.N != 0 {
			t.Errorf("%+v", res)
		}
		wantSaid(t, res.State, "split")
		res = execute(t, bot, Input{Text: "one"})
		wantSaid(t, res.State, "split", "split", "1one")
		if res.State.N != 1 {
			t.Errorf("merged %d branches", res.State.N)
		}
	})
}

// The branches that fail are named, and the others run to their end.
func TestForEachFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom, bang := errors.New("boom"), errors.New("bang")
		var ran atomic.Int64
		bot := newWorld().Start(t, each(func(_ context.Context, _ *Turn, word string) error {
			ran.Add(1)
			switch word {
			case "a":
				return boom
			case "ccc":
				return bang
			}
			return nil
		}), Options{Limits: orchestrator.Limits{FanOut: 2}})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "dddd a bb ccc e"}, nil)
		wantErr(t, err, boom, bang)
		for _, text := range []string{"look item 2: boom", "look item 4: bang"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q is not in %v", text, err)
			}
		}
		if e := details(t, err); e.Op != "intent" || e.Intent != "look" || ran.Load() != 5 {
			t.Errorf("%d items ran: %+v", ran.Load(), e)
		}
		wantRuns(t, bot, 0)

		// The text of a thousand errors stays readable.
		_, err = bot.Execute(t.Context(), "s", Input{Text: strings.Repeat("a ", 999) + "ccc"}, nil)
		wantErr(t, err, boom, bang)
		if !strings.Contains(err.Error(), "and 990 branches more") || len(err.Error()) > 500 {
			t.Error(err)
		}
	})
}

// An item is tried again as its intent says, with its number and a fresh state. The others are not.
func TestForEachRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts [4]atomic.Int64
		d := each(func(_ context.Context, t *Turn, _ string) error {
			t.State.Said = append(t.State.Said, "of a failed attempt")
			if attempts[t.ItemNumber].Add(1) == 1 && t.ItemNumber == 2 {
				return errors.New("boom")
			}
			t.State.Said = t.State.Said[:len(t.State.Said)-1]
			return nil
		})
		look := d.Intents["look"]
		look.Retry = retry.Fixed(3, time.Second)
		d.Intents["look"] = look
		res := execute(t, newWorld().Start(t, d, Options{}), Input{Text: "a bb c"})
		wantSaid(t, res.State, "split", "1a", "2bb", "3c")
		if attempts[1].Load() != 1 || attempts[2].Load() != 2 || attempts[3].Load() != 1 {
			t.Errorf("attempts %d, %d, %d", attempts[1].Load(), attempts[2].Load(), attempts[3].Load())
		}
	})
}

// If a turn is over, the items that wait do not start, and the error does not repeat itself for each of them.
func TestForEachTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		d := each(nil)
		look := d.Intents["look"]
		run := look.Run
		look.Run = func(ctx context.Context, t *Turn) error {
			ran.Add(1)
			return run(ctx, t)
		}
		d.Intents["look"] = look
		limits := orchestrator.Limits{FanOut: 2, TurnTimeout: 3500 * time.Millisecond}
		bot := newWorld().Start(t, d, Options{Limits: limits})
		_, err := bot.Execute(t.Context(), "s", Input{Text: strings.Repeat("bb ", 50)}, nil)
		wantErr(t, err, context.DeadlineExceeded)
		if ran.Load() != 4 || strings.Count(err.Error(), "item") != 3 {
			t.Errorf("%d started: %v", ran.Load(), err)
		}
	})
}

// Two items that write the same field are named.
func TestForEachConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := each(nil)
		d.Merge = nil
		bot := newWorld().Start(t, d, Options{})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a bb"}, nil)
		wantErr(t, err, orchestrator.ErrMerge)
		if !strings.Contains(err.Error(), `"Said", by look item 1 and look item 2`) {
			t.Error(err)
		}
	})
}

// A decision that cannot be kept fails the turn before any item runs. The session is as it was.
func TestForEachRefused(t *testing.T) {
	for name, c := range map[string]struct {
		next Next
		says string
	}{
		"unknown":    {orchestrator.ForEach("none", 1), `"none" is no intent`},
		"not JSON":   {orchestrator.ForEach("look", 1, math.NaN()), `ForEach "look", item 2: json`},
		"too many":   {orchestrator.ForEach("look", make([]int, 10_001)...), "10001 items, and 10000 is the most"},
		"too large":  {orchestrator.ForEach("look", strings.Repeat("x", 3<<20)), "items of 3145741 bytes"},
		"together":   {orchestrator.ForEach("look", make([]byte, 1), make([]byte, 2<<20)), "Limits.State is 2097152"},
		"as a union": {orchestrator.To("a").And(orchestrator.ForEach("none", 1)), `"none" is no intent`},
	} {
		t.Run(name, func(t *testing.T) {
			next := orchestrator.End
			d := Def{
				Name: "r", Iterate: true, First: "a",
				Intents: Intents{
					"a": {Run: say("a"), Then: func(context.Context, *Turn) (Next, error) { return next, nil }},
					"look": {Run: func(context.Context, *Turn) error {
						t.Error("an item runs")
						return nil
					}},
				},
				Route: func(context.Context, *Turn) (Next, error) { return orchestrator.End, nil },
			}
			bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{State: 2 << 20}})
			execute(t, bot, Input{})
			next = c.next
			_, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil)
			wantOp(t, err, "route")
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if e, ok := errors.AsType[*orchestrator.StateError](err); ok && e.Of != "items" {
				t.Errorf("%+v", e)
			}
			wantRuns(t, bot, 0)
			if n := len(turns(t, bot)); n != 1 {
				t.Errorf("%d turns", n)
			}
		})
	}
}

// The items may be as large as a state, beside such a state and such an input. They are saved and resumed.
func TestFatItems(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector")
	}
	const size = 14 << 20
	limits := orchestrator.Limits{Input: 15 << 20, State: 15 << 20}
	w := newWorld()
	d := func(die func()) Def {
		return Def{
			Name: "much", Iterate: true, First: "grow",
			Intents: Intents{
				"grow": {Run: func(_ context.Context, t *Turn) error {
					t.State.A = strings.Repeat("x", size)
					return nil
				}, Then: func(context.Context, *Turn) (Next, error) {
					return orchestrator.ForEach("look", strings.Repeat("y", size), "z"), nil
				}},
				"look": {Run: func(_ context.Context, t *Turn) error {
					if die != nil {
						die()
						return errDead
					}
					if t.ItemNumber == 1 {
						t.State.N = len(orchestrator.Item[string](t))
					}
					return nil
				}, Next: orchestrator.End},
			},
		}
	}
	ctx, die := context.WithCancel(t.Context())
	bot := w.Start(t, d(die), Options{Limits: limits})
	_, err := bot.Execute(ctx, "s", Input{Text: strings.Repeat("i", size)}, nil)
	wantErr(t, err, context.Canceled, orchestrator.ErrIndeterminate)
	res, err := w.Start(t, d(nil), Options{Limits: limits}).Resume(t.Context(), "s", nil)
	if err != nil || res.State.N != size || len(res.State.A) != size {
		t.Errorf("%v", err)
	}
}

// Item outside of ForEach, or as another type, fails the turn with a text that says so. A Turn made by hand may have an
// item.
func TestItem(t *testing.T) {
	d := Def{
		Name: "r",
		Intents: Intents{"a": {Run: func(_ context.Context, t *Turn) error {
			t.State.N = orchestrator.Item[int](t)
			return nil
		}}},
	}
	next := orchestrator.To("a")
	d.Route = func(context.Context, *Turn) (Next, error) { return next, nil }
	bot := newWorld().Start(t, d, Options{})
	for says, n := range map[string]Next{
		`Item[int]: the intent "a" runs without an item; ForEach gives it one`: orchestrator.To("a"),
		`Item[int]: item 1 of the intent "a": json: cannot unmarshal string`:   orchestrator.ForEach("a", "x"),
	} {
		next = n
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	byHand := &Turn{Item: []byte(`{"ID":7}`), ItemNumber: 1}
	if got := orchestrator.Item[struct{ ID int }](byHand); got.ID != 7 {
		t.Errorf("got %+v", got)
	}
}

// Items run beside other intents, in the order of the decision. The items of two decisions for one intent follow each
// other.
func TestForEachBesideOthers(t *testing.T) {
	d := Def{
		Name: "r", Merge: appended,
		Intents: Intents{
			"plain": {Run: say("plain")},
			"look": {Run: func(_ context.Context, t *Turn) error {
				t.State.Said = append(t.State.Said, fmt.Sprint(t.ItemNumber, orchestrator.Item[string](t)))
				return nil
			}},
		},
		Route: func(context.Context, *Turn) (Next, error) {
			return orchestrator.ForEach("look", "x").And(orchestrator.To("plain")).
				And(orchestrator.ForEach("look", "y", "z")).And(orchestrator.ForEach[int]("look")), nil
		},
	}
	res := execute(t, newWorld().Start(t, d, Options{}), Input{})
	wantSaid(t, res.State, "1x", "2y", "3z", "plain")
}

// Then runs once, after the merge, on the state of all items. It may change the state. If Evaluate has an opinion, Then
// is not asked. Its error fails the turn.
func TestThen(t *testing.T) {
	boom := errors.New("boom")
	asked := 0
	var opinion Next
	var fails error
	d := Def{
		Name: "r", Iterate: true, Merge: appended, First: "split",
		Intents: Intents{
			"split": {Run: say("split"), Then: func(context.Context, *Turn) (Next, error) {
				return orchestrator.ForEach("look", 1, 2, 3), nil
			}},
			"look": {Run: say("look"), Then: func(_ context.Context, t *Turn) (Next, error) {
				asked++
				t.State.N = len(t.State.Said)
				return orchestrator.End, fails
			}},
		},
		Evaluate: func(_ context.Context, t *Turn) (Next, error) {
			if t.Iteration == 0 {
				return Next{}, nil
			}
			return opinion, nil
		},
	}
	w := newWorld()
	bot := w.Start(t, d, Options{})
	res := execute(t, bot, Input{})
	if asked != 1 || res.State.N != 4 || !slices.Equal(res.Steps[1].Next.Intents, []string{"look"}) {
		t.Errorf("asked %d times: %+v", asked, res)
	}
	opinion = orchestrator.End
	if execute(t, bot, Input{}); asked != 1 {
		t.Error("Then was asked after Evaluate")
	}
	opinion, fails = Next{}, boom
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, boom)
	if e := details(t, err); e.Op != "then" || e.Intent != "look" {
		t.Errorf("%+v", e)
	}
	d.Iterate, d.Evaluate, d.First = false, nil, ""
	both := d.Intents["look"]
	both.Next = orchestrator.ForEach("look", math.Inf(1))
	d.Intents["look"] = both
	_, err = orchestrator.New(d, w.Checkpoints, nil)
	for _, says := range []string{
		"Next and Then", `"look": Then without Iterate`, `Next: ForEach "look", item 1: json`,
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}

// After Migrate, a process decides for items of its own. A branch of another version's does not count as one of these,
// although its place and its intent are the same. Without Migrate, a process goes on with the items that were decided.
func TestForEachOfAnotherVersion(t *testing.T) {
	version := func(v, words string, migrates bool, die func()) Def {
		d := Def{
			Name: "r", Version: v, Merge: appended,
			Intents: Intents{"look": {Run: func(_ context.Context, t *Turn) error {
				word := orchestrator.Item[string](t)
				time.Sleep(time.Duration(len(word)) * time.Second)
				if len(word) == 3 && die != nil {
					die()
					return errDead
				}
				t.State.Said = append(t.State.Said, word)
				return nil
			}}},
			Route: func(context.Context, *Turn) (Next, error) {
				return orchestrator.ForEach("look", strings.Fields(words)...), nil
			},
		}
		if migrates {
			d.Migrate = func(context.Context, checkpoint.Checkpoint) (s State, err error) { return s, nil }
		}
		return d
	}
	for _, c := range []struct {
		last     string
		migrates bool
		want     []string
	}{
		{"2", true, []string{"y", "zzz", "xxxx"}},
		{"1", true, []string{"none"}},
		{"1", false, []string{"ccc", "bb", "a"}},
		{"3", false, []string{"ccc", "bb", "a"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			in := Input{Text: "x", RequestID: "r"}
			w.Crash(t, func(die func()) Def { return version("1", "ccc bb a", c.migrates, die) }, in)
			w.Crash(t, func(die func()) Def { return version("2", "y zzz xxxx", c.migrates, die) }, in)
			res := execute(t, w.Start(t, version(c.last, "none", c.migrates, nil), Options{}), in)
			wantSaid(t, res.State, c.want...)
		})
	}
}

// A stored decision without its items is damage, and runs nothing.
func TestForEachDamaged(t *testing.T) {
	for name, parts := range map[string]map[string]string{
		"no items": nil, "fewer items": {"items": `{"look":["a"]}`}, "of another": {"items": `{"other":["a","bb"]}`},
		"no list": {"items": `[]`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.Crash(t, func(die func()) Def {
				return each(func(context.Context, *Turn, string) error {
					die()
					return errDead
				})
			}, Input{Text: "a bb"})
			editRun(t, w, "each", func(map[string]any) {}, parts)
			_, err := w.Start(t, each(func(context.Context, *Turn, string) error {
				t.Errorf("%s: an item runs", name)
				return nil
			}), Options{}).Resume(t.Context(), "s", nil)
			wantErr(t, err, snapshot.ErrDamaged)
		})
	}
}

// A fan-out of plain intents that an earlier process has decided does not fail because this process has a smaller
// Limits.FanOut.
func TestFanOutUnderASmallerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := func(die func()) Def { return ticks([]string{"a", "c", "d", "b"}, dying("d", die)) }
		w.Crash(t, d, Input{Text: "x"})
		bot := w.Start(t, d(nil), Options{Limits: orchestrator.Limits{FanOut: 2}})
		res, err := bot.Resume(t.Context(), "s", nil)
		if err != nil || res.State.A != "a" || res.State.B != "b" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A process of a commit that knows no items must not take up a run whose branches for items are saved. It sees the
// version of the payload. So that version is saved first, and once, whoever decides.
func TestForEachSavesItsVersionFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		routed := each(nil)
		routed.First, routed.Iterate = "", false
		routed.Intents = Intents{"look": {Run: routed.Intents["look"].Run}}
		routed.Route = func(_ context.Context, t *Turn) (Next, error) {
			return orchestrator.ForEach("look", strings.Fields(t.Input.Text)...), nil
		}
		for _, c := range []struct {
			who  string
			bot  Def
			want string
		}{
			{"Route", routed, "1 2 2+ 2+"},
			{"Then", each(nil), "1 2 2+ 2+"},
		} {
			w := newWorld()
			seen := &versions{Store: w.Snapshots}
			w.Snapshots = seen
			execute(t, w.Start(t, c.bot, Options{}), Input{Text: "a bb ccc"})
			if got := strings.Join(seen.all, " "); got != c.want {
				t.Errorf("%s decides: saved versions %s, want %s", c.who, got, c.want)
			}
		}
	})
}

// versions notes the version of each payload that is saved, and with a + that a branch is saved beside it.
type versions struct {
	snapshot.Store
	all []string
}

func (s *versions) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	s.all = append(s.all, version(r.Payload))
	return s.Store.Begin(ctx, r)
}

func (s *versions) Save(ctx context.Context, r snapshot.Run) error {
	for name := range r.Parts {
		if strings.HasPrefix(name, "branch ") {
			s.all = append(s.all, strings.TrimSuffix(s.all[len(s.all)-1], "+")+"+")
			return s.Store.Save(ctx, r)
		}
	}
	s.all = append(s.all, version(r.Payload))
	return s.Store.Save(ctx, r)
}

func version(payload []byte) string {
	var v struct{ V int }
	if err := json.Unmarshal(payload, &v); err != nil {
		return err.Error()
	}
	return fmt.Sprint(v.V)
}
