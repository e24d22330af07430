package turnhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/agui"
)

// The errors of a program whose methods panic.
type (
	typedNil    struct{ inner error }
	isPanics    struct{}
	asPanics    struct{}
	wrapsItself struct{}
)

func (e *typedNil) Error() string   { return e.inner.Error() }
func (e *typedNil) Unwrap() error   { return e.inner }
func (isPanics) Error() string      { return secret }
func (isPanics) Is(error) bool      { panic(secret) }
func (asPanics) Error() string      { return secret }
func (asPanics) As(any) bool        { panic(secret) }
func (wrapsItself) Error() string   { return secret }
func (e wrapsItself) Unwrap() error { return e }
func misbehaviours() map[string]func() error {
	var none *typedNil
	var input *orchestrator.InputError
	fails := func(err error) func() error { return func() error { return err } }
	return map[string]func() error{
		"panics":                  func() error { panic(secret) },
		"panics with an error":    func() error { panic(orchestrator.ErrBusy) },
		"panics with a typed nil": func() error { panic(none) },
		"typed nil":               fails(none),
		"typed nil of InputError": fails(input),
		"Is panics":               fails(isPanics{}),
		"As panics":               fails(asPanics{}),
		"it wraps itself":         fails(fmt.Errorf("%s: %w", secret, wrapsItself{})),
	}
}

// A loud is a value whose JSON is an error, or a panic.
type loud func() error

func (l loud) MarshalJSON() ([]byte, error) { return nil, l() }

// A saying is a Chat that does what a function does.
type saying func() error

func (s saying) Messages(context.Context, string, int, int) ([]message.Message, int, error) {
	return nil, 0, s()
}

func (s saying) Stop(context.Context, string, string, string) error { return s() }

func (s saying) Branch(context.Context, string, int, string) error { return s() }

func (s saying) Delete(context.Context, string) error { return s() }

// must is for functions that return no error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Whatever an Options function returns or panics with, the client gets an answer, the program is told, and nothing goes
// out of what it has said.
func TestPanicsOfOptions(t *testing.T) {
	type o = turnhttp.Options[State]
	turn := request{method: "POST", path: "/sessions/s/turns", key: "k", body: `{"message":"say hi"}`}
	shown := turn
	shown.header = map[string]string{"Accept": "text/event-stream"}
	sum := sumOf("s", "q", map[string]int{"cents": 5})
	ask := request{method: "POST", path: "/sessions/s/questions/q", body: `{"answer":"answer yes","sum":"` + sum + `"}`}
	for name, c := range map[string]struct {
		set func(o *o, says func() error)
		request

		// returned is the status if the function returns an error.
		returned int
	}{
		"Authorize": {func(o *o, says func() error) {
			o.Authorize = func(*http.Request, string, turnhttp.Action) (turnhttp.Actor, error) { return "ann", says() }
		}, turn, 401},
		"Input": {func(o *o, says func() error) {
			o.Input = func(*http.Request) (orchestrator.Input, error) { return orchestrator.Input{}, says() }
		}, turn, 400},
		"Input, without a body": {func(o *o, says func() error) {
			o.Input = func(*http.Request) (orchestrator.Input, error) { return orchestrator.Input{}, says() }
		}, request{method: "POST", path: "/sessions/s/turns", key: "k"}, 400},
		"Arrived": {func(o *o, says func() error) {
			o.Arrived = func(context.Context, string, orchestrator.Input) error { return says() }
		}, turn, 500},
		"Reply": {func(o *o, says func() error) {
			o.Reply = func(*orchestrator.Result[State]) any { must(says()); return nil }
		}, turn, 500},
		"Reply, shown": {func(o *o, says func() error) {
			o.Reply = func(*orchestrator.Result[State]) any { must(says()); return nil }
		}, shown, 200},
		"what Reply returns": {func(o *o, says func() error) {
			o.Reply = func(*orchestrator.Result[State]) any { return loud(says) }
		}, turn, 500},
		"Questions": {func(o *o, says func() error) {
			o.Questions = func(*State) []approval.Question { must(says()); return nil }
		}, request{method: "GET", path: "/sessions/s/questions"}, 500},
		"what Questions shows": {func(o *o, says func() error) {
			o.Questions = func(*State) []approval.Question { return []approval.Question{{ID: "q", Shown: loud(says)}} }
		}, request{method: "GET", path: "/sessions/s/questions"}, 500},
		"Answer": {func(o *o, says func() error) {
			o.Answer = func(approval.Question, approval.Answer) (orchestrator.Input, error) {
				return orchestrator.Input{}, says()
			}
		}, ask, 400},
		"Chat": {func(o *o, says func() error) { o.Chat = saying(says) }, request{
			method: "GET", path: "/sessions/s/messages",
		}, 500},
		"Chat.Delete": {func(o *o, says func() error) { o.Chat = saying(says) }, request{
			method: "DELETE", path: "/sessions/s",
		}, 500},
		"OnError": {func(o *o, says func() error) {
			o.OnError = func(*http.Request, error) { must(says()) }
			o.Reply = func(*orchestrator.Result[State]) any { return func() {} }
		}, turn, 500},
	} {
		for kind, says := range misbehaviours() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					logs := catchLogs(t)
					w := newWorld()
					bot := w.bot(t, w.definition(), nil)
					if _, err := bot.Execute(t.Context(), "s", orchestrator.Input{Text: "ask q 5"}, nil); err != nil {
						t.Fatal(err)
					}
					o := w.options()
					var told []error
					o.OnError = func(_ *http.Request, err error) { told = append(told, err) }
					c.set(&o, says)
					got := c.to(t.Context(), turnhttp.Handler(bot, o))
					want, panics := c.returned, strings.HasPrefix(kind, "panics") || c.returned >= 500
					if panics && want != 200 {
						want = 500
					}
					if got.Code != want {
						t.Errorf("status %d, want %d: %s", got.Code, want, got.Body)
					}
					if want == 200 && !strings.Contains(got.Body.String(), "event: problem") {
						t.Errorf("no problem is shown: %s", got.Body)
					}
					if strings.Contains(got.Body.String()+got.Header().Get("Retry-After"), secret) {
						t.Errorf("the client got %s", got.Body)
					}
					if name != "OnError" && (want >= 500 || want == 200) {
						if len(told) != 1 {
							t.Fatalf("OnError was told %v", told)
						}
						_ = fmt.Sprint(told[0], errors.Is(told[0], orchestrator.ErrBusy))
					}
					if strings.HasPrefix(kind, "panics") {
						log := logs.String()
						if !strings.Contains(log, "handler panicked") || strings.Contains(log, secret) {
							t.Errorf("it logs %s", log)
						}
						p, ok := errors.AsType[*orchestrator.PanicError](first(told))
						if name != "OnError" && (!ok || len(p.Stack) == 0) {
							t.Errorf("OnError is told of no panic: %v", told)
						}
					}
				})
			})
		}
	}
}

func first(all []error) error {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// catchLogs returns what slog.Default() logs in this test.
func catchLogs(t *testing.T) *bytes.Buffer {
	logs, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logs, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return logs
}

// http.ErrAbortHandler is no fault: the program wants the connection cut.
func TestAbortHandler(t *testing.T) {
	logs := catchLogs(t)
	w := newWorld()
	bot := w.bot(t, w.definition(), nil)
	o := w.options()
	o.Input = func(*http.Request) (orchestrator.Input, error) { panic(http.ErrAbortHandler) }
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // as net/http does
			t.Errorf("it panics with %v", v)
		}
		if logs.Len() > 0 {
			t.Errorf("it logs %s", logs)
		}
	}()
	request{method: "POST", path: "/sessions/s/turns", key: "k", body: `{}`}.to(t.Context(), turnhttp.Handler(bot, o))
}

// Answers goes on, whatever Questions, Answer and OnError do.
func TestAnswersOfForeignFunctions(t *testing.T) {
	for kind, says := range misbehaviours() {
		for _, which := range []string{"Questions", "Answer", "OnError", "Inbox"} {
			t.Run(which+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					logs := catchLogs(t)
					w := newWorld()
					bot := w.bot(t, w.definition(), nil)
					if _, err := bot.Execute(t.Context(), "s", orchestrator.Input{Text: "ask q 5"}, nil); err != nil {
						t.Fatal(err)
					}
					it := inbox.Item{Kind: inbox.Answer, ID: "q", By: "ann", Data: []byte(`"answer yes"`)}
					it.Orchestrator, it.Session = "bot", "s"
					if _, err := w.answers.Post(t.Context(), it); err != nil {
						t.Fatal(err)
					}
					o := w.options()
					questions, answer, calls, told := o.Questions, o.Answer, 0, 0
					o.OnError = func(*http.Request, error) {
						if told++; which == "OnError" {
							must(says())
						}
					}
					o.Questions = func(s *State) []approval.Question {
						if calls++; calls == 1 && which == "Questions" {
							must(says())
						}
						return questions(s)
					}
					o.Answer = func(q approval.Question, a approval.Answer) (in orchestrator.Input, err error) {
						if calls++; calls == 2 && (which == "Answer" || which == "OnError") {
							return in, says()
						}
						return answer(q, a)
					}
					if which == "Inbox" {
						o.Inbox = &badInbox{Store: o.Inbox, says: says}
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					if err := o.Desk(bot).Run(ctx); err != nil {
						t.Fatal(err)
					}
					if told == 0 || calls < 3 {
						t.Errorf("told %d times, %d calls", told, calls)
					}
					if strings.Contains(logs.String(), secret) {
						t.Errorf("it logs %s", logs)
					}
				})
			})
		}
	}
}

// A badInbox fails to remove an item, once.
type badInbox struct {
	inbox.Store
	says  func() error
	again bool
}

func (b *badInbox) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if !b.again {
		b.again = true
		return b.says()
	}
	return b.Store.Remove(ctx, k, kind, ids...)
}

// A front end gets a problem, and the handler the error.
func TestPanicsOfShow(t *testing.T) {
	events := func(says func() error) func(context.Context) iter.Seq2[orchestrator.Shown, error] {
		return func(context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				if says != nil {
					must(says())
				}
			}
		}
	}
	for kind, says := range misbehaviours() {
		for name, show := range map[string]turnhttp.Show{
			"Events": {Session: "s", Events: events(says)},
			"Outcome": {Session: "s", Events: events(nil), Outcome: func(context.Context, orchestrator.Event) (
				turnhttp.Reply, error,
			) {
				return turnhttp.Reply{}, says()
			}},
			"Data": {Session: "s", Events: events(nil), Outcome: func(context.Context, orchestrator.Event) (
				turnhttp.Reply, error,
			) {
				return turnhttp.Reply{Data: loud(says)}, nil
			}},
			"Shown": {Session: "s", Events: events(nil), Outcome: func(context.Context, orchestrator.Event) (
				turnhttp.Reply, error,
			) {
				return turnhttp.Reply{Questions: []approval.Question{{ID: "q", Shown: loud(says)}}}, nil
			}},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				logs := catchLogs(t)
				var err error
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = agui.Write(w, r, show) })
				got := request{method: "POST", path: "/"}.to(t.Context(), h)
				if got.Code != 500 || strings.Contains(got.Body.String(), secret) || !json.Valid(got.Body.Bytes()) {
					t.Errorf("status %d: %s", got.Code, got.Body)
				}
				if err == nil || turnhttp.Status(err) != 500 {
					t.Errorf("the handler got %v", err)
				}
				panics := strings.HasPrefix(kind, "panics") || name == "Events"
				log := logs.String()
				if panics != strings.Contains(log, "handler panicked") || strings.Contains(log, secret) {
					t.Errorf("it logs %s", log)
				}
			})
		}
	}
}

// A store that panics under a reader of events ends the request, and not the process.
func TestPanicOfStoreUnderEvents(t *testing.T) {
	for _, events := range []stream.Store{nil, new(stream.Memory)} {
		logs := catchLogs(t)
		w := newWorld()
		o := &Options{Logger: slog.New(slog.NewTextHandler(w, nil)), Stream: events}
		bot, err := orchestrator.New(w.definition(), panicky{w.checkpoints}, o)
		if err != nil {
			t.Fatal(err)
		}
		got := request{
			method: "POST", path: "/sessions/s/turns", key: "k", body: `{"message":"say hi"}`,
			header: map[string]string{"Accept": "text/event-stream"},
		}.to(t.Context(), turnhttp.Handler(bot, w.options()))
		if got.Code != 504 || strings.Contains(got.Body.String()+logs.String(), secret) {
			t.Errorf("status %d: %s; it logs %s", got.Code, got.Body, logs)
		}
	}
}

type panicky struct{ checkpoint.Store }

func (panicky) Claim(context.Context, checkpoint.Key, checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	panic(secret)
}

// Under serve.Run, the panic of an option is in the log of the service.
func TestServeOptionPanics(t *testing.T) {
	logs := catchLogs(t)
	w := newWorld()
	o := w.options()
	o.Authorize = func(*http.Request, string, turnhttp.Action) (turnhttp.Actor, error) { panic(secret) }
	p := bubble.NewPipe()
	ctx, end := context.WithCancel(t.Context())
	var log bytes.Buffer
	err := serve.Run(ctx, serve.Service{
		Handler: turnhttp.Handler(w.bot(t, w.definition(), nil), o), Listener: p,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Background: []func(context.Context) error{func(context.Context) error {
			defer end()
			resp, err := p.Client().Get(base + "/sessions/s")
			if err == nil && resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("the status is %d", resp.StatusCode)
			}
			return errors.Join(err, resp.Body.Close())
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), secret) ||
		!strings.Contains(log.String(), `function=Options.Authorize type=string`) {
		t.Errorf("it logs %s", log.String())
	}
	if logs.Len() > 0 {
		t.Errorf("slog.Default() has %s", logs)
	}
}
