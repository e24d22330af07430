package turnhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// Answers panics if an option is missing that it needs.
func TestAnswersNeeds(t *testing.T) {
	w := newWorld()
	bot := w.bot(t, w.definition(), nil)
	for name, lacking := range map[string]func(*turnhttp.Options[State]){
		"Questions": func(o *turnhttp.Options[State]) { o.Questions = nil },
		"Inbox":     func(o *turnhttp.Options[State]) { o.Inbox = nil },
		"Answer":    func(o *turnhttp.Options[State]) { o.Answer = nil },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it does not panic")
				}
			}()
			o := w.options()
			lacking(&o)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = o.Desk(bot).Run(ctx)
		})
	}
}

// An answer to nothing that cannot be removed is told of, and removed later.
func TestAnswersRemoveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.post(t, "s", "", "answer yes")
		o := w.options()
		o.Inbox = &removeInbox{w.answers, 1}
		var told atomic.Int64
		o.OnError = func(*http.Request, error) { told.Add(1) }
		stop := watching(t, w, o)
		time.Sleep(time.Minute)
		if stop(); told.Load() != 1 || w.left(t) != 0 {
			t.Errorf("it is told %d times, and %d answers are left", told.Load(), w.left(t))
		}
	})
}

// A client whose body has arrived hears the end of a turn that takes longer than a body may.
func TestLongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
		client := served(t, h)
		says("ask q1 100").to(t.Context(), h)
		q := answering("ann", "hold")
		q.header["Accept"] = "text/event-stream"
		last := make(chan string)
		go func() {
			defer close(last)
			res, err := client.Do(q.make(t.Context(), "http://x"))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			kinds := ""
			if err := readEvents(res.Body, func(ev event) bool {
				kinds += ev.kind + " "
				return true
			}); err != nil {
				t.Error(err)
			}
			last <- kinds
		}()
		time.Sleep(2 * time.Minute)
		close(w.hold)
		if kinds := <-last; !strings.HasSuffix(kinds, "intent.ended turn.settled reply ") {
			t.Errorf("the events are %q", kinds)
		}
	})
}

// A request has one key.
func TestTwoKeys(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	r := routes["turn"].make(t.Context(), "")
	r.Header.Add("Idempotency-Key", "another")
	if res := sent(h, r); res.Code != 400 || typeOf(res.Body.Bytes()) != "bad-request" {
		t.Errorf("it is %d %s", res.Code, res.Body)
	}
	w.wantNothing(t)
}

// A session has an owner while a process is at work, and an effect is finished when it has ended.
func TestWhileAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
		type session struct {
			Owner *struct{ ID string }
			Run   *struct{ Effects []string }
		}
		of := func() session { return decode[session](t, routes["session"].to(t.Context(), h).Body.Bytes()) }
		if s := of(); s.Owner != nil || s.Run != nil {
			t.Errorf("a session of nothing is %+v", s)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			says("pay slowly").to(t.Context(), h)
		}()
		synctest.Wait()
		if s := of(); s.Owner == nil || s.Owner.ID == "" || s.Run == nil {
			t.Errorf("a session at work is %+v", s)
		}
		finished := func() *time.Time {
			doc := decode[struct {
				Effects []struct{ Finished *time.Time }
			}](t, routes["effects"].to(t.Context(), h).Body.Bytes())
			return doc.Effects[0].Finished
		}
		if at := finished(); at != nil {
			t.Errorf("the effect at work is finished at %v", at)
		}
		close(w.hold)
		<-done
		if at := finished(); at == nil || at.IsZero() {
			t.Errorf("the effect is finished at %v", at)
		}
	})
}

// A reader of a turn that waits for a person is told which effects it waits for.
func TestEventsOfSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		f := &fixture{T: t, w: w, def: w.definition(), o: w.options()}
		f.turn("pay")
		time.Sleep(time.Second)
		res := routes["events"].to(t.Context(), f.h)
		var last event
		if err := readEvents(res.Body, func(ev event) bool {
			last = ev
			return true
		}); err != nil {
			t.Fatal(err)
		}
		doc := decode[struct {
			Type, Run string
			Effects   []string
		}](t, []byte(last.data))
		if doc.Type != "/problems/suspended" || doc.Run != f.run() ||
			len(doc.Effects) != 1 || doc.Effects[0] != f.effect() {
			t.Errorf("the last event is %+v", last)
		}
	})
}

// OnError is told of an error that comes as an event.
func TestEventOfInternal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		told := 0
		o.OnError = func(*http.Request, error) { told++ }
		o.Reply = func(*orchestrator.Result[State]) any { return func() {} }
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
		streamed := func(q *request) { q.header = map[string]string{"Accept": "text/event-stream"} }
		res := with("turn", streamed).to(t.Context(), h)
		if told != 1 || !strings.Contains(res.Body.String(), "/problems/internal") {
			t.Errorf("OnError is told %d times of %s", told, res.Body)
		}
	})
}

// An answer that was left by the program itself has no mark, and counts if it is to what is shown.
func TestAnswerWithoutMark(t *testing.T) {
	w := newWorld()
	here, _ := asked(t, w)
	sum, err := inbox.Sum(questionsOf(t, here)[0].Shown)
	if err != nil {
		t.Fatal(err)
	}
	for shown, want := range map[string]bool{"": true, sum: true, "x": false, sum + "@x": false, "x@x": false} {
		if _, err := w.answers.Post(t.Context(), inbox.Item{
			Key: keyOfS, Kind: inbox.Answer, ID: "q1", By: "bob", Shown: shown, Data: json.RawMessage(`"answer yes"`),
		}); err != nil {
			t.Fatal(err)
		}
		if q := questionsOf(t, here)[0]; q.Answered != want {
			t.Errorf("an answer to %q: answered is %t", shown, q.Answered)
		}
		if err := w.answers.Remove(t.Context(), keyOfS, inbox.Answer); err != nil {
			t.Fatal(err)
		}
	}
}

// ShowNewest tells a page that came later how the turn has ended: its data, or that it has failed.
func TestShowNewestOutcome(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			d := w.definition()
			d.Intents["do"] = orchestrator.Intent[State]{Run: func(ctx context.Context, t *Turn) error {
				t.Emit("Good ")
				if err := w.wait(ctx); err != nil || !fails {
					return err
				}
				return errors.New(secret)
			}}
			bot := w.bot(t, d, nil)
			turn := bot.Stream(t.Context(), "s", orchestrator.Input{Text: "hello"}, nil)
			time.Sleep(time.Second)
			reply := func(*orchestrator.Result[State]) turnhttp.Reply {
				return turnhttp.Reply{Text: "Good day.", Data: "data of the reply"}
			}
			body, told := make(chan string, 1), make(chan error, 1)
			go func() {
				res := httptest.NewRecorder()
				err := uichat.Write(res, httptest.NewRequest(http.MethodGet, "/", http.NoBody),
					turnhttp.ShowNewest(bot, "s", reply))
				body <- res.Body.String()
				told <- err
			}()
			synctest.Wait()
			close(w.hold)
			_, _ = turn.Result()
			want := "data of the reply"
			if fails {
				want = "/problems/turn-failed"
			}
			got, err := <-body, <-told
			if !strings.Contains(got, want) || (err != nil) != fails || strings.Contains(got, secret) {
				t.Errorf("%v: %s", err, got)
			}
			if e, ok := errors.AsType[*orchestrator.Error](err); fails && (!ok || e.RunID == "") {
				t.Errorf("the error names no run: %v", err)
			}
		})
	}
}

// A client that answers again for an effect hears whether its answer counts: the value, too.
func TestAnotherValue(t *testing.T) {
	for first, again := range map[string]map[string]int{
		`,"value":{"a":1,"b":2}`: {`,"value":{"b":2.0, "a":1}`: 200, `,"value":{"a":1}`: 409, ``: 409, `,"value":null`: 409},
		``:                       {``: 200, `,"value":null`: 200, `,"value":{"a":1}`: 409},
	} {
		w := newWorld()
		f := &fixture{T: t, w: w, def: w.definition(), o: w.options()}
		f.turn("pay")
		answer := func(value string) int {
			return request{
				method: "POST", path: "/sessions/s/effects/" + f.effect(), body: `{"outcome":"landed"` + value + `}`,
			}.to(t.Context(), f.h).Code
		}
		if code := answer(first); code != 200 {
			t.Errorf("the answer %q is %d", first, code)
		}
		for value, want := range again {
			if code := answer(value); code != want {
				t.Errorf("after the answer %q, %q is %d, not %d", first, value, code, want)
			}
		}
	}
}

// manyEffects are more effects than are shown.
type manyEffects struct{ ledger.Ledger }

const effectsThere = 2345

func (manyEffects) Effects(context.Context, ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for i := range effectsThere {
			e := ledger.Effect{}
			e.ID, e.Name, e.RunID, e.State, e.Attempts = fmt.Sprint(i), "pay", "r", ledger.Completed, 1
			if !yield(e, nil) {
				return
			}
		}
	}
}

// The newest thousand effects are shown.
func TestManyEffects(t *testing.T) {
	w := newWorld()
	o := w.options()
	o.Ledger = manyEffects{w.effects}
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
	all := decode[struct{ Effects []struct{ ID string } }](t, routes["effects"].to(t.Context(), h).Body.Bytes()).Effects
	if len(all) != 1000 || all[0].ID != "1345" || all[999].ID != "2344" {
		t.Errorf("%d effects, from %v to %v", len(all), all[0], all[len(all)-1])
	}
}

// A fullInbox takes no answer.
type fullInbox struct{ inbox.Store }

func (fullInbox) Post(context.Context, inbox.Item) (bool, error) { return false, errDead }

// An answer that the inbox does not take runs nothing.
func TestAnswerNotKept(t *testing.T) {
	w := newWorld()
	asked(t, w)
	o := w.options()
	o.Inbox = fullInbox{w.answers}
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
	if res := answering("ann", "yes").to(t.Context(), h); res.Code != 503 || w.ran.Load() != 1 {
		t.Errorf("it is %d, and the bot ran %d times", res.Code, w.ran.Load())
	}
}

// tornCheckpoints have a damaged turn.
type tornCheckpoints struct{ checkpoint.Store }

func (s tornCheckpoints) Turns(
	ctx context.Context, k checkpoint.Key, from int,
) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for cp, err := range s.Store.Turns(ctx, k, from) {
			if cp.Turn == 1 && err == nil {
				err = &checkpoint.DamagedError{Key: k, Reason: secret}
			}
			if !yield(cp, err) {
				return
			}
		}
	}
}

// A damaged turn is shown as one, and the others are shown too.
func TestDamagedTurn(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	for _, key := range []string{"a", "b", "c"} {
		with("turn", func(q *request) { q.key = key }).to(t.Context(), h)
	}
	w.checkpoints = tornCheckpoints{w.checkpoints}
	h = turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	res := routes["session"].to(t.Context(), h)
	turns := decode[struct {
		Turns []struct {
			Turn    int
			Reply   string
			Problem *struct{ Type string }
		}
	}](t, res.Body.Bytes()).Turns
	if len(turns) != 3 || turns[1].Turn != 1 || turns[1].Problem == nil || turns[2].Reply != "hello" ||
		strings.Contains(res.Body.String(), secret) {
		t.Errorf("it is %d %s", res.Code, res.Body)
	}
}
