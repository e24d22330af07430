package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/workflow"
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

func ExampleContains() {
	fmt.Println(workflow.Contains([]byte(`{"user":42,"plan":"pro"}`), []byte(`{"user":42.0}`)))
	fmt.Println(workflow.Contains([]byte(`{"user":42}`), []byte(`{"user":"42"}`)))
	// Output:
	// true
	// false
}
