package oncehttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
)

// The process dies when the model has answered and nothing of the turn is saved. The next process does not ask the
// model again. The client stands for that of an SDK.
func Example() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		fmt.Printf("the model is asked: %s\n", question)
		fmt.Fprint(w, "It is on its way.")
	}))
	defer model.Close()
	client := &http.Client{Transport: oncehttp.New(nil).Transport(nil)}

	type State struct{ Reply string }
	type Turn = orchestrator.Turn[State]
	answer := func(ctx context.Context, t *Turn) error {
		ctx = oncehttp.With(ctx, t, "model")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, model.URL, strings.NewReader(t.Input.Text))
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		t.State.Reply = string(text)
		return err
	}
	bot := orchestrator.Definition[State]{
		Name: "support", Intents: orchestrator.Intents[State]{"answer": {Run: answer}},
	}

	ctx, in := context.Background(), orchestrator.Input{RequestID: "request-1", Text: "Where is my order?"}
	var world orchestratortest.World
	first := orchestratortest.Start(&world, bot, nil)
	first.DieAfter("ledger.Record", 1)
	_, _ = first.Bot.Execute(ctx, "customer-7", in, nil)
	if err := first.Expire(ctx); err != nil {
		log.Fatal(err)
	}
	res, err := orchestratortest.Start(&world, bot, nil).Bot.Execute(ctx, "customer-7", in, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Reply)
	// Output:
	// the model is asked: Where is my order?
	// It is on its way.
}
