package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/deliver"
)

// A process that posts a webhook is killed when the receiver has the message, and has not answered. Another process
// posts it again, with the same id.
func TestWebhookKilled(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			w := s.here(t)
			arrived, posts := make(chan string, 10), make(chan string, 10)
			var once sync.Once
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					return
				}
				posts <- req.Header.Get("Webhook-Id") + " " + compact(t, body)
				once.Do(func() {
					arrived <- "here"
					<-req.Context().Done()
				})
			}))
			defer receiver.Close()
			err := w.store.Subscribe(t.Context(), workflow.Subscription{ID: "crm", Pattern: "#", URL: receiver.URL})
			if err != nil {
				t.Fatal(err)
			}
			p := job{Site: s, Webhooks: true}.start(t)
			message := map[string]int{"user": 42}
			started, err := workflow.Publish(t.Context(), w.store, nil, "user.signup", "m-1", message)
			if err != nil {
				t.Fatal(err)
			}
			<-arrived
			w.awaitBeats(t)
			p.kill()
			w.run(t, deliver.Webhook(&deliver.WebhookOptions{AllowPrivate: true}))
			r, err := workflow.NewClient(w.store).Await(t.Context(), started[0].ID)
			if err != nil || r.Status != workflow.Completed || string(r.Output) != "200" {
				t.Errorf("%+v, %v", r, err)
			}
			close(posts)
			var got []string
			for post := range posts {
				got = append(got, post)
			}
			if want := `m-1 {"user":42}`; !slices.Equal(got, []string{want, want}) {
				t.Errorf("posted %q", got)
			}
		})
	}
}

func compact(t *testing.T, doc []byte) string {
	var v any
	err := json.Unmarshal(doc, &v)
	text, err2 := json.Marshal(v)
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
	}
	return string(text)
}

// A listener is how a bot takes messages of topics.
type listener struct{ *bot }

func (l listener) Enqueue(ctx context.Context, session, requestID string, message json.RawMessage) error {
	in := orchestrator.Input{RequestID: requestID, Data: message, Kind: "topic"}
	err := l.bot.Enqueue(ctx, session, in)
	if errors.Is(err, orchestrator.ErrRequestReused) {
		return retry.Permanent(err)
	}
	return err
}

// A forgetful listener gives a message to its bot, and then says that it has failed: once.
type forgetful struct {
	deliver.Sessions

	calls int
}

func (f *forgetful) Enqueue(ctx context.Context, session, requestID string, message json.RawMessage) error {
	err := f.Sessions.Enqueue(ctx, session, requestID, message)
	if f.calls++; f.calls == 1 {
		return errors.New("the answer was lost")
	}
	return err
}

// A message of a topic is said to a session once, although it is given to the bot twice. Its id is that of the request.
func TestTopicToSession(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t).here(t)
			work := func(_ context.Context, t *orchestrator.Turn[talk]) error {
				t.State.Heard = append(t.State.Heard, t.Input.RequestID+" "+string(t.Input.Data))
				return nil
			}
			b, err := orchestrator.New(orchestrator.Definition[talk]{
				Name: "support", First: "work", Intents: orchestrator.Intents[talk]{"work": {Run: work}},
			}, w.checkpoints, &orchestrator.Options{Snapshots: w.snapshots, Inbox: new(inbox.Memory), Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			f := &forgetful{Sessions: listener{b}}
			e, _ := w.run(t, deliver.Session(f))
			sub := workflow.Subscription{ID: "desk", Pattern: "order.*", Session: "customer-7"}
			err = w.store.Subscribe(t.Context(), sub)
			if err != nil {
				t.Fatal(err)
			}
			var run string
			for range 2 {
				started, err := workflow.Publish(t.Context(), e.Front(), nil, "order.paid", "m-1", 42)
				if err != nil || len(started) != 1 {
					t.Fatal(started, err)
				}
				run = started[0].ID
			}
			r, err := workflow.NewClient(e.Front()).Await(t.Context(), run)
			if err != nil || r.Status != workflow.Completed || f.calls != 2 {
				t.Errorf("%d calls, %+v, %v", f.calls, r, err)
			}
			res, err := b.Execute(t.Context(), "customer-7", orchestrator.Input{RequestID: "last"}, nil)
			if err != nil || !slices.Equal(res.State.Heard, []string{"m-1 42", "last "}) {
				t.Errorf("heard %q, %v", res.State.Heard, err)
			}
		})
	}
}
