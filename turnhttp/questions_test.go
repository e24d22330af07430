package turnhttp_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// An askedOf has the fields of a question that these tests read.
type askedOf struct {
	ID, Sum, By string
	Shown       struct {
		Cents int `json:"cents"`
	}
	Expires  *time.Time
	Answered bool
}

func questionsOf(t *testing.T, h http.Handler, query ...string) []askedOf {
	t.Helper()
	res := with("questions", func(q *request) { q.path += strings.Join(query, "") }).to(t.Context(), h)
	return decode[struct{ Questions []askedOf }](t, res.Body.Bytes()).Questions
}

// keyOfS is that of session s.
var keyOfS = inbox.Key{Orchestrator: "bot", Session: "s"}

// answering is an answer to q1.
func answering(who, answer string) request {
	return with("answer", func(q *request) {
		q.body = answerBody(`"answer ` + answer + `"`)
		q.header = map[string]string{"Who": who}
	})
}

// left returns how many answers lie in the inbox.
func (w *world) left(t *testing.T) (n int) {
	t.Helper()
	for _, err := range w.answers.Items(t.Context(), inbox.Key{Orchestrator: "bot"}, inbox.Answer) {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	return n
}

// asked starts two processes of a bot that has asked q1.
func asked(t *testing.T, w *world) (here, there http.Handler) {
	t.Helper()
	here = turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	there = turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	if res := says("ask q1 100").to(t.Context(), here); res.Code != 200 {
		t.Fatalf("the bot does not ask: %d", res.Code)
	}
	return here, there
}

// Fifty people answer at once, in two processes. One is first. The others are told so, then and later, and the first
// gets the same reply again.
func TestAnswerOnce(t *testing.T) {
	w := newWorld()
	here, there := asked(t, w)
	q := questionsOf(t, there)
	if len(q) != 1 || q[0].ID != "q1" || q[0].Shown.Cents != 100 ||
		q[0].Sum != sumOfQ1 || q[0].Answered || q[0].Expires != nil {
		t.Fatalf("it asks %+v", q)
	}
	var mu sync.Mutex
	won := make(map[string]string)
	var group sync.WaitGroup
	for i := range 50 {
		who := fmt.Sprintf("user %d", i)
		group.Go(func() {
			res := answering(who, who).to(t.Context(), []http.Handler{here, there}[i%2])
			mu.Lock()
			defer mu.Unlock()
			switch doc := res.Body.Bytes(); {
			case res.Code == 200:
				won[who] = decode[turnOf](t, doc).Reply
			case res.Code != 409 || typeOf(doc) != "answered":
				t.Errorf("%s is told %d %s", who, res.Code, doc)
			}
		})
	}
	group.Wait()
	if len(won) != 1 || w.ran.Load() != 2 || w.left(t) != 0 {
		t.Fatalf("%v were first, the bot ran %d times, and %d answers are left", won, w.ran.Load(), w.left(t))
	}
	if q := questionsOf(t, here); len(q) != 0 {
		t.Errorf("it still asks %+v", q)
	}
	if q := questionsOf(t, here, "?id=q0"); len(q) != 0 {
		t.Errorf("of a question that was never asked it says %+v", q)
	}
	for who, reply := range won {
		if q := questionsOf(t, here, "?id=q1"); len(q) != 1 || !q[0].Answered || q[0].By != who {
			t.Errorf("of the question that %s has answered it says %+v", who, q)
		}
		res := answering(who, who).to(t.Context(), there)
		if turn := decode[turnOf](t, res.Body.Bytes()); res.Code != 200 || !turn.Replayed || turn.Reply != reply {
			t.Errorf("the first is told %d %s later", res.Code, res.Body)
		}
		res = answering("someone else", who).to(t.Context(), there)
		if res.Code != 409 || typeOf(res.Body.Bytes()) != "answered" {
			t.Errorf("someone else is told %d %s later", res.Code, res.Body)
		}
		res = answering(who, "no").to(t.Context(), there)
		if res.Code != 409 || typeOf(res.Body.Bytes()) != "answered" {
			t.Errorf("another answer is told %d %s later", res.Code, res.Body)
		}
	}
	if w.ran.Load() != 2 {
		t.Errorf("the bot ran %d times", w.ran.Load())
	}
}

// While the answer is at work, the question is answered, and others are told so.
func TestAnswerAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		here, there := asked(t, w)
		done := make(chan int)
		go func() { done <- answering("ann", "hold").to(t.Context(), here).Code }()
		synctest.Wait()
		for _, query := range []string{"", "?id=q1"} {
			if q := questionsOf(t, there, query); len(q) != 1 || !q[0].Answered || q[0].By != "ann" {
				t.Errorf("%q: it asks %+v", query, q)
			}
		}
		if res := answering("bob", "hold").to(t.Context(), there); typeOf(res.Body.Bytes()) != "answered" {
			t.Errorf("bob is told %d %s", res.Code, res.Body)
		}
		if res := answering("ann", "no").to(t.Context(), there); typeOf(res.Body.Bytes()) != "answered" {
			t.Errorf("ann is told %d %s", res.Code, res.Body)
		}
		go func() { done <- answering("ann", "hold").to(t.Context(), there).Code }() // a second tab
		synctest.Wait()
		close(w.hold)
		if a, b := <-done, <-done; a != 200 || b != 200 || w.ran.Load() != 2 {
			t.Errorf("ann is told %d and %d, and the bot ran %d times", a, b, w.ran.Load())
		}
	})
}

// An answer that was left for a question that has changed since is dropped by the next one.
func TestAnswerToBefore(t *testing.T) {
	w := newWorld()
	here, _ := asked(t, w)
	old := questionsOf(t, here)[0]
	kept, err := inbox.Sum(old.Shown)
	if err != nil {
		t.Fatal(err)
	}
	stale := inbox.Item{
		Key: inbox.Key{Orchestrator: "bot", Session: "s"}, Kind: inbox.Answer, ID: "q1", By: "bob",
		Shown: kept, Data: []byte(`"answer old"`),
	}
	if _, err := w.answers.Post(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	q := says("ask q1 200")
	q.key = "k2"
	q.to(t.Context(), here)
	if now := questionsOf(t, here)[0]; now.Answered || now.Sum == old.Sum {
		t.Errorf("it asks %+v, and asked %+v", now, old)
	}
	anew := answering("ann", "new")
	anew.body = strings.ReplaceAll(anew.body, sumOfQ1, questionsOf(t, here)[0].Sum)
	res := anew.to(t.Context(), here)
	if turn := decode[turnOf](t, res.Body.Bytes()); res.Code != 200 || turn.Reply != "answer new" || w.left(t) != 0 {
		t.Errorf("ann is told %d %s, and %d answers are left", res.Code, res.Body, w.left(t))
	}
}

// An answer that was in time is taken after the question has expired.
func TestAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.definition()
		d.Intents["do"] = orchestrator.Intent[State]{Run: func(ctx context.Context, t *Turn) error {
			if t.State.Asks == "" {
				t.State.Asks, t.State.Cents, t.State.Due = "q1", 100, time.Now().Add(time.Minute)
				return nil
			}
			t.State.Due = time.Time{}
			return w.do(ctx, t)
		}}
		h := turnhttp.Handler(w.bot(t, d, nil), w.options())
		says("").to(t.Context(), h)
		if q := questionsOf(t, h); len(q) != 1 || q[0].Expires == nil {
			t.Fatalf("it asks %+v", q)
		}
		failed := answering("ann", "fail").to(t.Context(), h)
		time.Sleep(time.Hour)
		if res := answering("bob", "late").to(t.Context(), h); typeOf(res.Body.Bytes()) != "answered" {
			t.Errorf("bob is told %d %s", res.Code, res.Body)
		}
		res := answering("ann", "fail").to(t.Context(), h)
		if failed.Code != 502 || res.Code != 502 {
			t.Errorf("ann is told %d, and then %d %s", failed.Code, res.Code, res.Body)
		}
		if err := w.answers.Remove(t.Context(), keyOfS, inbox.Answer); err != nil {
			t.Fatal(err)
		}
		if res := answering("ann", "yes").to(t.Context(), h); typeOf(res.Body.Bytes()) != "expired" || w.left(t) != 0 {
			t.Errorf("a new answer is told %d %s", res.Code, res.Body)
		}
	})
}

// A flakyInbox stands for a process that dies: it fails calls after a number of them.
type flakyInbox struct {
	inbox.Store
	left int
}

func (f *flakyInbox) dies() bool {
	f.left--
	return f.left < 0
}

var errDead = errors.New("the process is dead")

func (f *flakyInbox) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if f.dies() {
		return false, errDead
	}
	return f.Store.Post(ctx, it)
}

func (f *flakyInbox) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	if f.dies() {
		return func(yield func(inbox.Item, error) bool) { yield(inbox.Item{}, errDead) }
	}
	return f.Store.Items(ctx, k, kind)
}

func (f *flakyInbox) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	if f.dies() {
		return inbox.Item{}, errDead
	}
	return f.Store.Item(ctx, k, kind, id)
}

func (f *flakyInbox) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if f.dies() {
		return errDead
	}
	return f.Store.Remove(ctx, k, kind, ids...)
}

// Wherever the process of an answer dies, the answer is taken once: by a repeat in another process, or by Answers.
func TestAnswerAfterCrash(t *testing.T) {
	for _, by := range []string{"repeat", "watch"} {
		for calls := range 5 {
			t.Run(fmt.Sprintf("%s after %d calls", by, calls), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { answerAfterCrash(t, calls, by == "watch") })
			})
		}
	}
}

func answerAfterCrash(t *testing.T, calls int, watch bool) {
	w := newWorld()
	_, there := asked(t, w)
	o := w.options()
	o.Inbox = &flakyInbox{w.answers, calls}
	dying := w.bot(t, w.definition(), nil)
	died := answering("ann", "yes").to(t.Context(), turnhttp.Handler(dying, o))
	posted := w.left(t) > 0 || w.ran.Load() > 1
	if watch && posted {
		stop := watching(t, w, w.options())
		time.Sleep(time.Minute)
		stop()
	} else if res := answering("ann", "yes").to(t.Context(), there); res.Code != 200 {
		t.Errorf("the repeat is %d %s, after %d", res.Code, res.Body, died.Code)
	}
	if w.ran.Load() != 2 || w.left(t) != 0 && watch {
		t.Errorf("the bot ran %d times, and %d answers are left", w.ran.Load(), w.left(t))
	}
	if q := questionsOf(t, there); len(q) != 0 {
		t.Errorf("it still asks %+v", q)
	}
}

// A desk has answered, and the model says nonsense, is away for a minute, and is repaired. The answer is tried again
// until the turn settles. What was said before is not said again, and the desk is not asked again.
func TestAnswersOfBrokenModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked(t, w)
		began, said := time.Now(), 0
		d := w.definition()
		d.Intents["do"] = orchestrator.Intent[State]{Run: func(ctx context.Context, t *Turn) error {
			reply, err := orchestrator.Once(ctx, t, "model", func(context.Context, string) (string, error) {
				said++
				switch {
				case said == 1:
					return "nonsense", nil
				case time.Since(began) < time.Minute:
					return "", errors.New("away")
				}
				return "repaired", nil
			}, &orchestrator.OnceOptions[string]{Class: ledger.Pure})
			if err == nil && reply == "nonsense" {
				err = errors.New("unusable")
			}
			t.State.Asks, t.State.Text = "", reply
			return err
		}}
		w.post(t, "s", "", "answer yes")
		defer watchingBy(t, w.bot(t, d, nil), w.options())()
		time.Sleep(5 * time.Minute)
		bot := w.bot(t, d, nil)
		res, err := bot.Turn(t.Context(), "s", checkpoint.Newest)
		if err != nil || res.State.Text != "repaired" || res.Turn != 1 || w.left(t) != 0 {
			t.Errorf("%+v, %v; %d answers are left", res, err, w.left(t))
		}
		before := said
		res, err = bot.Execute(t.Context(), "s", orchestrator.Input{Text: "x"}, nil)
		if err != nil || said != before+1 {
			t.Errorf("%+v, %v: the model was asked %d times", res, err, said-before)
		}
	})
}

// watching runs Answers in a process of its own, until stop.
func watching(t *testing.T, w *world, o turnhttp.Options[State]) (stop func()) {
	t.Helper()
	return watchingBy(t, w.bot(t, w.definition(), nil), o)
}

func watchingBy(t *testing.T, bot *Bot, o turnhttp.Options[State]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- o.Desk(bot).Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// post leaves an answer in the inbox, as a process that died would.
func (w *world) post(t *testing.T, session, sum, answer string) {
	t.Helper()
	if _, err := w.answers.Post(t.Context(), inbox.Item{
		Key: inbox.Key{Orchestrator: "bot", Session: session}, Kind: inbox.Answer, ID: "q1", By: "ann",
		Shown: sum, Data: []byte(`"` + answer + `"`),
	}); err != nil {
		t.Fatal(err)
	}
}

// Answers removes answers to what is not asked, and leaves alone a session that is at work.
func TestAnswersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked(t, w)
		w.post(t, "s", "what was asked before", "answer yes")
		w.post(t, "nothing is asked here", "", "answer yes")
		defer watching(t, w, w.options())()
		time.Sleep(time.Minute)
		if w.left(t) != 0 || w.ran.Load() != 1 {
			t.Errorf("%d answers are left, and the bot ran %d times", w.left(t), w.ran.Load())
		}
		busy := w.bot(t, w.definition(), nil).Stream(t.Context(), "s", orchestrator.Input{Text: "slow x"}, nil)
		synctest.Wait()
		w.post(t, "s", "", "answer yes")
		time.Sleep(time.Minute)
		if w.ran.Load() != 2 {
			t.Errorf("the bot ran %d times", w.ran.Load())
		}
		close(w.hold)
		if _, err := busy.Result(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if w.left(t) != 0 || w.ran.Load() != 3 {
			t.Errorf("%d answers are left, and the bot ran %d times", w.left(t), w.ran.Load())
		}
	})
}

// An answer whose turn fails is tried again, less and less often. One that the bot refuses is dropped.
func TestAnswersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked(t, w)
		o := w.options()
		var mu sync.Mutex
		var told []int
		o.OnError = func(r *http.Request, err error) {
			mu.Lock()
			defer mu.Unlock()
			if r != nil {
				t.Error("OnError got a request")
			}
			told = append(told, turnhttp.Status(err))
		}
		w.post(t, "s", "", "answer fail")
		stop := watching(t, w, o)
		time.Sleep(2 * time.Hour)
		n := w.ran.Load() - 1
		if n < 10 || n > 25 || w.left(t) != 1 {
			t.Errorf("in 2 hours it was tried %d times", n)
		}
		stop()
		if len(told) != int(n) || slices.Min(told) != 502 {
			t.Errorf("OnError is told %v", told)
		}
		if err := w.answers.Remove(t.Context(), keyOfS, inbox.Answer); err != nil {
			t.Fatal(err)
		}
		w.post(t, "s", "", "refuse")
		defer watching(t, w, w.options())()
		time.Sleep(time.Minute)
		if w.left(t) != 0 || w.ran.Load() != n+1 {
			t.Errorf("%d answers are left", w.left(t))
		}
	})
}

// A removeInbox fails the first calls of Remove.
type removeInbox struct {
	inbox.Store
	fails int
}

func (r *removeInbox) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if r.fails--; r.fails >= 0 {
		return errDead
	}
	return r.Store.Remove(ctx, k, kind, ids...)
}

// A process dies after it has deleted a session, and before it has removed the answers. In its next life the session
// asks the same question. Nothing takes the answer of the life before, and a new one counts.
func TestAnswerOfFormerLife(t *testing.T) {
	for _, by := range []string{"watch", "answer"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { answerOfFormerLife(t, by == "watch") })
		})
	}
}

func answerOfFormerLife(t *testing.T, watch bool) {
	w := newWorld()
	here, there := asked(t, w)
	if res := answering("ann", "fail").to(t.Context(), here); res.Code != 502 || w.left(t) != 1 {
		t.Fatalf("the answer is %d, and %d are left", res.Code, w.left(t))
	}
	o := w.options()
	o.Inbox = &removeInbox{w.answers, 1}
	dying := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
	if res := routes["delete"].to(t.Context(), dying); res.Code != 503 || w.left(t) != 1 {
		t.Fatalf("the deletion is %d, and %d answers are left", res.Code, w.left(t))
	}
	if res := says("ask q1 100").to(t.Context(), there); res.Code != 200 {
		t.Fatalf("the bot does not ask: %d", res.Code)
	}
	if q := questionsOf(t, there); len(q) != 1 || q[0].Answered {
		t.Errorf("it asks %+v", q)
	}
	ran := w.ran.Load()
	if watch {
		stop := watching(t, w, w.options())
		time.Sleep(time.Minute)
		stop()
	} else {
		if res := answering("bob", "yes").to(t.Context(), there); res.Code != 200 {
			t.Errorf("bob is told %d %s", res.Code, res.Body)
		}
		ran++
	}
	if w.ran.Load() != ran || w.left(t) != 0 {
		t.Errorf("the bot ran %d times, want %d, and %d answers are left", w.ran.Load(), ran, w.left(t))
	}
}

// An answer stays one while other turns settle, as long as the question is asked, and even if the turn that asked first
// is pruned.
func TestAnswerInALaterTurn(t *testing.T) {
	for _, keep := range []int{0, 1} {
		t.Run(fmt.Sprintf("KeepSnapshots %d", keep), func(t *testing.T) { answerInALaterTurn(t, keep) })
	}
}

func answerInALaterTurn(t *testing.T, keep int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		here := turnhttp.Handler(w.bot(t, w.definition(), &Options{KeepSnapshots: keep}), w.options())
		if res := says("ask q1 100").to(t.Context(), here); res.Code != 200 {
			t.Fatalf("the bot does not ask: %d", res.Code)
		}
		answering("ann", "fail").to(t.Context(), here)
		for _, key := range []string{"k2", "k3"} {
			q := says("say more")
			q.key = key
			q.to(t.Context(), here)
		}
		if q := questionsOf(t, here); len(q) != 1 || !q[0].Answered {
			t.Errorf("it asks %+v", q)
		}
		if res := answering("bob", "yes").to(t.Context(), here); typeOf(res.Body.Bytes()) != "answered" {
			t.Errorf("bob is told %d %s", res.Code, res.Body)
		}
		if res := routes["delete"].to(t.Context(), here); res.Code != 204 || w.left(t) != 0 {
			t.Errorf("the deletion is %d, and %d answers are left", res.Code, w.left(t))
		}
	})
}

// While the inbox is away, Answers tells of each look as the handler does, for orchestrator.Public too.
func TestAnswersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		o.Inbox = &flakyInbox{Store: w.answers}
		told := 0
		o.OnError = func(_ *http.Request, err error) {
			told++
			p := orchestrator.Public(err)
			if p.Type != "unavailable" || p.RetryAfter != 5*time.Second || turnhttp.Status(err) != 503 ||
				!errors.Is(err, errDead) {
				t.Errorf("it is told of %v, as %+v", err, p)
			}
		}
		stop := watching(t, w, o)
		time.Sleep(time.Minute)
		if stop(); told < 5 {
			t.Errorf("it is told %d times", told)
		}
	})
}

// Answers ends with the bot.
func TestAnswersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.bot(t, w.definition(), nil)
		done := make(chan error)
		go func() { done <- w.options().Desk(bot).Run(t.Context()) }()
		time.Sleep(time.Minute)
		if err := bot.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
