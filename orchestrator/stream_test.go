package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// The JSON of events is for browsers: short, lower-case, and without what is not there.
func TestEventGolden(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	next := orchestrator.ForEach("look", "what a user said", "more").And(Next{Intents: []string{"a"}, Reason: "why"})
	for want, ev := range map[string]Event{
		`{"kind":"turn.refused"}`: {Kind: orchestrator.TurnRefused, Err: errors.New("boom")},
		`{"kind":"token","session":"s","request":"q","run":"r","seq":7,"turn":1,"iteration":2,"intent":"a","item":3,` +
			`"attempt":1,"delta":"hel","at":"2026-05-04T03:02:01Z","dropped":4}`: {
			Kind: orchestrator.Token, Session: "s", RequestID: "q", RunID: "r", Seq: 7, Turn: 1, Iteration: 2,
			Intent: "a", Item: 3, Attempt: 1, Delta: "hel", At: at, Dropped: 4,
		},
		`{"kind":"intent.ended","intent":"a","attempt":1,"failed":true}`: {
			Kind: orchestrator.IntentEnded, Intent: "a", Attempt: 1, Err: errors.New("what a user said"),
		},
		`{"kind":"intent.ended","intent":"a","attempt":2}`:                     {Kind: orchestrator.IntentEnded, Intent: "a", Attempt: 2},
		`{"kind":"routed","next":{"intents":["look","a"],"items":{"look":2}}}`: {Kind: orchestrator.Routed, Next: next},
		`{"kind":"routed","next":{"end":true}}`: {
			Kind: orchestrator.Routed, Next: orchestrator.End,
		},
		`{"kind":"turn.settled","usage":{"input":1,"output":2,"cost":0.5},"ms":1.5}`: {
			Kind: orchestrator.TurnSettled, Usage: orchestrator.Usage{Input: 1, Output: 2, Cost: .5},
			Took: 1500 * time.Microsecond,
		},
	} {
		got, err := json.Marshal(ev)
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		var back Event
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != want {
			t.Errorf("it comes back as %s, %v", again, err)
		}
		if failed := ev.Kind == orchestrator.IntentEnded && ev.Err != nil; failed != (back.Err != nil) {
			t.Errorf("%s comes back with the error %v", want, back.Err)
		}
	}
}

// heard collects the events of a call.
func heard(c *orchestrator.Stream[State]) (all []Event) {
	for ev := range c.Events() {
		all = append(all, ev)
	}
	return all
}

// An earlier turn is finished first. Its tokens do not appear in the stream of the next request, unless they are asked
// for. Each event names its request, and counts within its run.
func TestStreamIsAboutItsOwnRequest(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			open := make(chan struct{})
			close(open)
			w.Crash(t, func(die func()) Def {
				d := talks(open)
				d.Intents["say"] = Intent{Run: func(context.Context, *Turn) error {
					die()
					return errDead
				}}
				return d
			}, Input{Text: "an earlier text", RequestID: "one"})
			bot := w.Start(t, talks(open), Options{})
			var all diary
			bot.Subscribe(all.Note)
			var on diary
			call := bot.Stream(t.Context(), "s", Input{Text: "my own", RequestID: "two"},
				&orchestrator.CallOptions{Earlier: earlier, OnEvent: on.Note})
			events := heard(call)
			text, kinds := spoken(events)
			wantText, wantKinds := "my own ", wholeTurn
			if earlier {
				wantText = "an earlier text " + wantText
				wantKinds = "turn.resumed routed intent.started intent.ended turn.settled " + wantKinds
			}
			if text != wantText || kinds != wantKinds {
				t.Errorf("heard %q of %q", text, kinds)
			}
			if a, b := spoken(on.Events); a != text || b != kinds {
				t.Errorf("OnEvent heard %q of %q", a, b)
			}
			seq := make(map[string]int)
			for _, ev := range events {
				seq[ev.RequestID]++
				if ev.Seq != seq[ev.RequestID] || ev.RunID == "" {
					t.Errorf("event %d of %q is %+v", seq[ev.RequestID], ev.RequestID, ev)
				}
			}
			if seq["two"] != 7 || seq["one"] != 0 && !earlier {
				t.Errorf("events %v", seq)
			}
			if text, _ := spoken(all.Events); text != "an earlier text my own " {
				t.Errorf("the process heard %q", text)
			}
			if res, err := call.Result(); err != nil || res.Resumed == nil {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// A delivery that was owed is of an earlier turn.
func TestOwedDeliveryIsOfAnEarlierTurn(t *testing.T) {
	d := echo()
	mail := errors.New("down")
	d.Deliver = func(context.Context, *Result) error { return mail }
	bot := newWorld().Start(t, d, Options{})
	execute(t, bot, Input{Text: "a", RequestID: "one"})
	mail = nil
	for _, earlier := range []bool{true, false} {
		var on diary
		_, err := bot.Execute(t.Context(), "s", Input{Text: fmt.Sprint(earlier), RequestID: fmt.Sprint(earlier)},
			&orchestrator.CallOptions{Earlier: earlier, OnEvent: on.Note})
		if err != nil {
			t.Fatal(err)
		}
		var delivered []string
		for _, ev := range on.Events {
			if ev.Kind == orchestrator.Delivered {
				delivered = append(delivered, ev.RequestID)
			}
		}
		want := []string{fmt.Sprint(earlier)}
		if earlier {
			want = []string{"one", "true"}
		}
		if !slices.Equal(delivered, want) {
			t.Errorf("delivered %q, want %q", delivered, want)
		}
	}
}

// A second call with the same request id joins the first: a Stream, an Execute, one that comes late, and one that does
// not stay. The intent runs once. Each gets all tokens and a result of its own.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := make(chan struct{})
		bot := newWorld().Start(t, talks(words), Options{})
		in := Input{Text: "a b c d", RequestID: "r", Data: []byte(`{"a": 1}`)}
		first := make(chan *Result, 1)
		go func() { first <- execute(t, bot, in) }() // it has no listener
		say := func() {
			words <- struct{}{}
			synctest.Wait()
		}
		say()
		say()
		again := in
		again.Data = []byte(`{"a":1}`) // the same value
		second := bot.Stream(t.Context(), "s", again, nil)
		gone, leave := context.WithCancel(t.Context())
		third := bot.Stream(gone, "s", in, nil)
		say()
		leave()
		events := heard(third)
		if text, kinds := spoken(events); text != "a b c " || kinds != "turn.started routed intent.started turn.left" {
			t.Errorf("the one that left heard %q of %q", text, kinds)
		}
		_, err := third.Result()
		wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
		fourth := make(chan *Result, 1)
		var on diary
		go func() {
			res, err := bot.Execute(t.Context(), "s", in, &orchestrator.CallOptions{OnEvent: on.Note})
			if err != nil {
				t.Error(err)
			}
			fourth <- res
		}()
		synctest.Wait()
		say()
		for name, all := range map[string][]Event{"stream": heard(second), "late": on.Events} {
			if text, kinds := spoken(all); text != "a b c d " || kinds != wholeTurn {
				t.Errorf("the %s heard %q of %q", name, text, kinds)
			}
			if all[0].Seq != 1 || all[len(all)-1].Seq != 9 {
				t.Errorf("the %s heard %+v", name, all)
			}
		}
		a, b := <-first, <-fourth
		c, err := second.Result()
		if err != nil {
			t.Fatal(err)
		}
		a.State.Said[0] = "changed"
		for _, res := range []*Result{b, c} {
			if wantSaid(t, res.State, in.Text); res.RunID != a.RunID || res.Turn != 0 || res.Replayed {
				t.Errorf("%+v", res)
			}
		}
		if res := execute(t, bot, in); !res.Replayed {
			t.Error("a call after the turn is a repeat")
		}
	})
}

// Calls that joined get the error of a turn that fails. If the context of the first call ends, the next call goes on
// with the turn, from what was saved, and is told nothing of an end.
func TestJoinWhatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		words := make(chan struct{})
		d := talks(words)
		fails := d
		ran := 0
		fails.Intents = Intents{"say": {Run: func(context.Context, *Turn) error {
			ran++
			<-words
			return boom
		}}}
		w := newWorld()
		bot := w.Start(t, fails, Options{})
		in := Input{Text: "a b", RequestID: "r"}
		first := bot.Stream(t.Context(), "s", in, nil)
		synctest.Wait()
		second := bot.Stream(t.Context(), "s", in, nil)
		synctest.Wait()
		words <- struct{}{}
		for _, c := range []*orchestrator.Stream[State]{first, second} {
			if _, kinds := spoken(heard(c)); kinds != "turn.started routed intent.started intent.ended turn.failed" {
				t.Errorf("heard %q", kinds)
			}
			_, err := c.Result()
			wantErr(t, err, boom)
		}
		if ran != 1 {
			t.Errorf("ran %d times", ran)
		}

		bot = w.Start(t, d, Options{})
		ctx, leave := context.WithCancel(t.Context())
		first = bot.Stream(ctx, "s", in, nil)
		synctest.Wait()
		words <- struct{}{}
		synctest.Wait()
		second, third := bot.Stream(t.Context(), "s", in, nil), bot.Stream(t.Context(), "s", in, nil)
		synctest.Wait()
		leave()
		synctest.Wait()
		if _, kinds := spoken(heard(first)); !strings.HasSuffix(kinds, "turn.left") {
			t.Errorf("the first heard %q", kinds)
		}
		for range 2 {
			words <- struct{}{}
		}
		for _, c := range []*orchestrator.Stream[State]{second, third} {
			text, kinds := spoken(heard(c))
			if text != "a a b " || kinds != "turn.started routed intent.started intent.ended "+
				"turn.resumed routed intent.started intent.ended turn.settled" {
				t.Errorf("heard %q of %q", text, kinds)
			}
			if res, err := c.Result(); err != nil || len(res.State.Said) != 1 {
				t.Errorf("%+v, %v", res, err)
			}
		}
	})
}

// A call that has joined, and whose context ends when it sees that the turn has settled, gets the outcome and no second
// end.
func TestJoinSettled(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{})
	for i := range 500 {
		in := Input{Text: "a", RequestID: fmt.Sprint(i)}
		ctx, leave := context.WithCancel(t.Context())
		var calls [2]*orchestrator.Stream[State]
		for c := range calls {
			calls[c] = bot.Stream(ctx, "s", in, nil)
		}
		for _, c := range calls {
			settled := false
			for ev := range c.Events() {
				if settled {
					t.Fatalf("%s after the turn has settled", ev.Kind)
				}
				if settled = ev.Kind == orchestrator.TurnSettled; settled {
					leave()
				}
			}
			if res, err := c.Result(); settled && (err != nil || res.Turn != i) {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		leave()
	}
}

// A call that has joined sees its turn begin. The first call leaves, and a third, with another input, takes the turn
// up. If the second gives up now, it does not know how the turn ends.
func TestJoinLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := make(chan struct{})
		bot := newWorld().Start(t, talks(words), Options{})
		in := Input{Text: "a", RequestID: "r"}
		var leave [2]func()
		var calls [2]*orchestrator.Stream[State]
		var other *orchestrator.Stream[State]
		for i := range calls {
			var ctx context.Context
			ctx, leave[i] = context.WithCancel(t.Context())
			calls[i] = bot.Stream(ctx, "s", in, nil)
			synctest.Wait()
			if i == 0 {
				other = bot.Stream(t.Context(), "s", Input{Text: "b", RequestID: "other"}, nil)
				synctest.Wait()
			}
		}
		for _, leave := range leave {
			leave()
			synctest.Wait()
		}
		for _, c := range calls {
			if _, kinds := spoken(heard(c)); !strings.HasSuffix(kinds, "turn.left") {
				t.Errorf("heard %q", kinds)
			}
			_, err := c.Result()
			wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
		}
		words <- struct{}{}
		words <- struct{}{}
		res, err := other.Result()
		if err != nil {
			t.Fatal(err)
		}
		wantSaid(t, res.State, "a", "b")
	})
}

// Another input under the same request id does not join, and neither does a call from within the turn.
func TestDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bot *Bot
		d := echo()
		in := Input{Text: "a", RequestID: "r"}
		d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
			_, err := bot.Execute(ctx, "s", in, nil)
			wantErr(t, err, orchestrator.ErrReentrant)
			time.Sleep(time.Second)
			return nil
		}}
		bot = newWorld().Start(t, d, Options{})
		first := bot.Stream(t.Context(), "s", in, nil)
		synctest.Wait()
		_, err := bot.Execute(t.Context(), "s", Input{Text: "b", RequestID: "r"}, nil)
		wantErr(t, err, orchestrator.ErrRequestReused)
		if _, err := first.Result(); err != nil {
			t.Error(err)
		}
	})
}

// What is kept for calls that join is bounded. A late call gets long tokens, and is told how much is missing.
func TestJoinLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens, size = 2000, 1 << 10
		there, end := make(chan struct{}), make(chan struct{})
		d := Def{Name: "talks", Intents: Intents{"say": {Run: func(_ context.Context, t *Turn) error {
			for range tokens {
				t.Emit(strings.Repeat("x", size))
			}
			close(there)
			<-end
			t.Emit("end")
			return nil
		}}}}
		bot := newWorld().Start(t, d, Options{})
		in := Input{Text: "a", RequestID: "r"}
		go func() { _, _ = bot.Execute(t.Context(), "s", in, nil) }()
		<-there
		late := bot.Stream(t.Context(), "s", in, nil)
		all := make(chan []Event)
		go func() { all <- heard(late) }()
		synctest.Wait() // it has what was kept
		close(end)
		events := <-all
		text, kinds := spoken(events)
		dropped := 0
		for _, ev := range events {
			dropped += ev.Dropped
		}
		if len(text) != 1<<20+len("end") || len(events) > 300 || kinds != wholeTurn {
			t.Errorf("%d bytes in %d events %q", len(text), len(events), kinds)
		}
		if want := tokens - 1<<20/size; dropped != want {
			t.Errorf("%d dropped, want %d", dropped, want)
		}
	})
}

// An intent that tries again by itself says so: what it has emitted before is void, as after an attempt of the engine.
func TestBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		run := func(_ context.Context, t *Turn) error {
			t.State.Said = append(t.State.Said, "kept")
			t.Emit("one")
			t.AddUsage(orchestrator.Usage{Input: 3})
			t.BeginAnew(boom)
			t.Emit("two")
			t.BeginAnew(nil)
			t.BeginAnew(textPanics{})
			return t.Show("three")
		}
		bot := newWorld().Start(t, Def{Name: "anew", Intents: Intents{"say": {Run: run}}}, Options{})
		call := bot.Stream(t.Context(), "s", Input{Text: "go"}, nil)
		var got []string
		for _, ev := range heard(call) {
			if ev.Attempt > 0 {
				got = append(got, fmt.Sprint(ev.Attempt, " ", ev.Kind, " ", ev.Delta, string(ev.Data), ev.Err != nil))
			}
			ended := ev.Attempt == 1 && ev.Kind == orchestrator.IntentEnded
			if ended && (!errors.Is(ev.Err, boom) || ev.Usage.Input != 3) {
				t.Errorf("%+v", ev)
			}
		}
		want := []string{
			"1 intent.started false", "1 token onefalse", "1 intent.ended true", "2 intent.started false",
			"2 token twofalse", "2 intent.ended true", "3 intent.started false", "3 intent.ended true",
			"4 intent.started false", `4 part "three"false`, "4 intent.ended false",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if res, err := call.Result(); err != nil || len(res.State.Said) != 1 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
