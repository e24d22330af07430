package deliver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/deliver"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A message of a topic is posted to a receiver, which is on this machine here: hence AllowPrivate.
func ExampleWebhook() {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		fmt.Println(req.Header.Get("webhook-id"), req.Header.Get("webhook-signature")[:3], string(body))
	}))
	defer receiver.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := new(workflow.Memory) // or postgres.New(pool, nil).Workflows()
	engine := flow.NewEngine(store, nil, deliver.Webhook(&deliver.WebhookOptions{
		Keys: func(context.Context, string) ([][]byte, error) {
			key, err := deliver.Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") // of this receiver
			return [][]byte{key}, err
		},
		Subscriptions: store,
		AllowPrivate:  true,
	}))
	go engine.Run(ctx)

	crm := workflow.Subscription{ID: "crm", Pattern: "user.*", URL: receiver.URL}
	if err := store.Subscribe(ctx, crm); err != nil {
		log.Fatal(err)
	}
	runs, err := workflow.Publish(ctx, engine.Front(), nil, "user.signup", "signup-42", map[string]int{"user": 42})
	if err != nil {
		log.Fatal(err)
	}
	run, err := workflow.NewClient(engine.Front()).Await(ctx, runs[0].ID)
	fmt.Println(run.Status, string(run.Output), err)
	// Output:
	// signup-42 v1, {"user":42}
	// completed 200 <nil>
}

// A desk is a session that says what it is told. An orchestrator with an inbox has an Enqueue that needs three lines.
type desk struct{}

func (desk) Enqueue(_ context.Context, session, requestID string, message json.RawMessage) error {
	fmt.Println(session, requestID, string(message))
	return nil
}

func ExampleSession() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := new(workflow.Memory)
	engine := flow.NewEngine(store, nil, deliver.Session(desk{}))
	go engine.Run(ctx)
	refunds := workflow.Subscription{ID: "desk", Pattern: "#.refunded", Session: "backoffice"}
	if err := store.Subscribe(ctx, refunds); err != nil {
		log.Fatal(err)
	}
	runs, err := workflow.Publish(ctx, engine.Front(), nil, "order.refunded", "refund-7", "A-1042")
	if err != nil {
		log.Fatal(err)
	}
	run, err := workflow.NewClient(engine.Front()).Await(ctx, runs[0].ID)
	fmt.Println(run.Status, err)
	// Output:
	// backoffice refund-7 "A-1042"
	// completed <nil>
}

func ExampleSecret() {
	key, err := deliver.Secret("whsec_aG9sZGZhc3Q=")
	fmt.Printf("%s %v\n", key, err)
	// Output: holdfast <nil>
}
