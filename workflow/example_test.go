package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A program that starts and signals runs needs the names alone. The engine is in another program.
func ExampleClient() {
	ctx := context.Background()
	c := workflow.NewClient(new(workflow.Memory)) // or postgres.New(pool, nil).Workflows()
	o := &workflow.StartOptions{IdempotencyKey: "order-1042"}
	run, err := c.Start(ctx, "refund", map[string]int{"cents": 100}, o)
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.Start(ctx, "refund", map[string]int{"cents": 100}, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.New, again.New, run.ID == again.ID)
	receipt, err := c.Signal(ctx, run.ID, "decision", map[string]bool{"approve": true}, "desk-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt)
	// Output:
	// true false true
	// kept
}

// Of starts in a row the last one counts, until a process begins with the run.
func ExampleStartOptions_debounce() {
	ctx := context.Background()
	c := workflow.NewClient(new(workflow.Memory))
	o := &workflow.StartOptions{IdempotencyKey: "docs", Delay: 10 * time.Second, Debounce: true}
	for _, change := range []string{"first", "second", "third"} {
		run, err := c.Start(ctx, "index", change, o)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change, run.New)
	}
	for run, err := range c.Runs(ctx, workflow.Query{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", run.Workflow, run.Input)
	}
	// Output:
	// first true
	// second false
	// third false
	// index "third"
}

// A publish starts a run for each subscription that fits. The id names the message: the second publish starts nothing.
func ExamplePublish() {
	ctx := context.Background()
	store := new(workflow.Memory) // or postgres.New(pool, nil).Workflows()
	for _, s := range []workflow.Subscription{
		{ID: "welcome", Pattern: "user.signup", Workflow: "onboard-user"},
		{ID: "crm", Pattern: "user.*", URL: "https://crm.example/hook"},
		{ID: "audit", Pattern: "#", Workflow: "audit"},
		{ID: "stock", Pattern: "order.#", Workflow: "stock"},
	} {
		if err := store.Subscribe(ctx, s); err != nil {
			log.Fatal(err)
		}
	}
	for range 2 {
		runs, err := workflow.Publish(ctx, store, nil, "user.signup", "signup-42", map[string]int{"user": 42})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(runs[0].New, runs[1].New, runs[2].New)
	}
	// Output:
	// true true true
	// false false false
}

func ExampleContains() {
	fmt.Println(workflow.Contains([]byte(`{"user":42,"plan":"pro"}`), []byte(`{"user":42.0}`)))
	fmt.Println(workflow.Contains([]byte(`{"user":42}`), []byte(`{"user":"42"}`)))
	// Output:
	// true
	// false
}

// A run has gone wrong because of what its second step returned. A fork of it goes on before that step: the first one
// is not called again.
func ExampleClient_Fork() {
	price := 100
	order := flow.New("order", 1, func(r *flow.Run, item string) (string, error) {
		id, err := flow.Step(r, "reserve", func(context.Context) (string, error) {
			fmt.Println("reserve", item)
			return "r-1", nil
		})
		if err != nil {
			return "", err
		}
		cents, err := flow.Step(r, "price", func(context.Context) (int, error) { return price, nil })
		return fmt.Sprintf("%s costs %d", id, cents), err
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine := flow.NewEngine(new(workflow.Memory), nil, order)
	go engine.Run(ctx)
	c := workflow.NewClient(engine.Front())
	run, err := order.Start(ctx, c, "lamp", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	price = 80
	fork, err := c.Fork(ctx, run.ID, "price")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(order.Handle(c, fork.ID).Result(ctx))
	// Output:
	// reserve lamp
	// r-1 costs 100 <nil>
	// r-1 costs 80 <nil>
}

// A run has failed, and the reason is gone. Rewind lets the same run go on from the step.
func ExampleClient_Rewind() {
	away := errors.New("the bank is closed")
	pay := flow.New("pay", 1, func(r *flow.Run, cents int) (string, error) {
		return flow.Step(r, "transfer", func(context.Context) (string, error) {
			return fmt.Sprint("paid ", cents), away
		}, flow.Retry(retry.Fixed(1, 0)))
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine := flow.NewEngine(new(workflow.Memory), nil, pay)
	go engine.Run(ctx)
	c := workflow.NewClient(engine.Front())
	run, err := pay.Start(ctx, c, 100, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = run.Result(ctx)
	fmt.Println(err != nil)
	away = nil
	if _, err := c.Rewind(ctx, run.ID, "transfer"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// true
	// paid 100 <nil>
}

// A part of the world is away. All runs of a workflow that are about it are held, and go on later.
func ExampleClient_ApplyAll() {
	ctx := context.Background()
	c := workflow.NewClient(new(workflow.Memory))
	for _, bank := range []string{"north", "south", "north"} {
		if _, err := c.Start(ctx, "pay", map[string]string{"bank": bank}, nil); err != nil {
			log.Fatal(err)
		}
	}
	north := workflow.Query{Workflow: "pay", Input: []byte(`{"bank":"north"}`)}
	fmt.Println(c.ApplyAll(ctx, workflow.Pause, north))
	fmt.Println(c.ApplyAll(ctx, workflow.Resume, north))
	// Output:
	// 2 <nil>
	// 2 <nil>
}
