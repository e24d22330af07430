package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A refund above a limit waits for a person. Whatever crashes, the refund is paid under one key.
func Example() {
	refund := flow.New("refund", 1, func(r *flow.Run, cents int) (string, error) {
		if cents > 10_000 {
			by, err := flow.Wait[string](r, "approval", flow.Timeout(72*time.Hour))
			if errors.Is(err, flow.ErrTimeout) {
				return "nobody has approved", nil
			}
			if err != nil {
				return "", err
			}
			r.Log().Info("approved", "by", by)
		}
		return flow.Step(r, "pay", func(ctx context.Context) (string, error) {
			return fmt.Sprintf("paid %d", cents), nil // under the key flow.StepID(ctx)
		})
	})

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine := flow.NewEngine(new(workflow.Memory), nil, refund)
	go engine.Run(ctx)
	c := workflow.NewClient(engine.Front())
	run, err := refund.Start(ctx, c, 20_000, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Signal(ctx, run.ID, "approval", "ada", "desk-7"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: paid 20000 <nil>
}
