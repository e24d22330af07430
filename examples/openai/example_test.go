package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
)

type (
	// State is what the model has said.
	State struct{ Draft, Reply string }
	// A Turn is the argument of each intent.
	Turn = orchestrator.Turn[State]
)

// connect returns a client that records the calls of a turn.
func connect(url string) openai.Client {
	recorder := oncehttp.New(nil)
	return openai.NewClient(
		option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-test"), option.WithMiddleware(recorder.Middleware),
	)
}

// A server answers as OpenAI does: with a draft in one piece, or with a reply that is streamed. It counts what it is
// asked, and fails the first so many times.
type server struct{ asked, fails atomic.Int32 }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	var body struct{ Stream bool }
	switch err := json.NewDecoder(r.Body).Decode(&body); {
	case err != nil, s.fails.Add(-1) >= 0:
		http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
	case body.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"Hello ", "to you."} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word)
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		const draft = `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}`
		fmt.Fprint(w, draft)
	}
}

// drafting is a bot that asks the model twice: for a draft in one piece, and for a reply that is streamed.
func drafting(client openai.Client) orchestrator.Definition[State] {
	ask := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{
			Model:    openai.ChatModelGPT5_4Mini,
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
		}
	}
	draft := func(ctx context.Context, t *Turn) error {
		res, err := client.Chat.Completions.New(oncehttp.With(ctx, t, "model"), ask(t.Input.Text))
		if err == nil && len(res.Choices) > 0 {
			t.State.Draft = res.Choices[0].Message.Content
		}
		return err
	}
	reply := func(ctx context.Context, t *Turn) error {
		t.State.Reply = ""
		stream := client.Chat.Completions.NewStreaming(oncehttp.With(ctx, t, "model"), ask(t.State.Draft))
		for stream.Next() {
			for _, c := range stream.Current().Choices {
				t.State.Reply += c.Delta.Content
				t.Emit(c.Delta.Content)
			}
		}
		return errors.Join(stream.Err(), stream.Close()) // Close says if the reply could not be recorded
	}
	return orchestrator.Definition[State]{
		Name: "drafting", Iterate: true, First: "draft",
		Intents: orchestrator.Intents[State]{
			"draft": {Run: draft, Next: orchestrator.To("reply")},
			"reply": {Run: reply, Next: orchestrator.End},
		},
	}
}

// answered lets a process die after its n-th step of that name, and another finish the turn.
func answered(ctx context.Context, client openai.Client, step string, n int) (State, error) {
	var world orchestratortest.World
	in := orchestrator.Input{RequestID: "request-1", Text: "hello"}
	first := orchestratortest.Start(&world, drafting(client), nil)
	first.DieAfter(step, n)
	_, _ = first.Bot.Execute(ctx, "customer-7", in, nil)
	if err := first.Expire(ctx); err != nil {
		return State{}, err
	}
	res, err := orchestratortest.Start(&world, drafting(client), nil).Bot.Execute(ctx, "customer-7", in, nil)
	if err != nil {
		return State{}, err
	}
	return res.State, nil
}

// The process dies when the model has streamed its reply and nothing of that is saved. The next process does not ask
// the model again.
func Example() {
	server := new(server)
	web := httptest.NewServer(server)
	defer web.Close()
	state, err := answered(context.Background(), connect(web.URL), "reply", 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Reply)
	fmt.Println("asked", server.asked.Load(), "times")
	// Output:
	// Hello to you.
	// asked 2 times
}

// Whenever the process dies once a reply is recorded, and though the client itself tries again what has failed, the
// model answers once for each reply.
func TestAskedOnce(t *testing.T) {
	for _, c := range []struct {
		step string
		n    int
	}{{"ledger.Record", 1}, {"draft", 1}, {"ledger.Record", 2}, {"reply", 1}, {"checkpoint.Append", 1}} {
		t.Run(fmt.Sprint(c.step, c.n), func(t *testing.T) {
			t.Parallel()
			server := new(server)
			server.fails.Store(1)
			web := httptest.NewServer(server)
			t.Cleanup(web.Close)
			state, err := answered(t.Context(), connect(web.URL), c.step, c.n)
			if err != nil || state.Draft == "" || state.Reply == "" {
				t.Errorf("%+v, %v", state, err)
			}
			if n := server.asked.Load(); n != 3 {
				t.Errorf("the model was asked %d times, want 3: a failure and two replies", n)
			}
		})
	}
}
