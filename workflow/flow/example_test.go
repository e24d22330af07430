package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
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

// An order starts a child for each parcel. The children run beside each other, in any process, and each is a run that
// can be seen, paused and cancelled. If the order is cancelled, they are too.
func ExampleChild() {
	parcel := flow.New("parcel", 1, func(r *flow.Run, item string) (string, error) {
		return flow.Step(r, "ship", func(context.Context) (string, error) { return item + " is on its way", nil })
	})
	order := flow.New("order", 1, func(r *flow.Run, items []string) ([]string, error) {
		return flow.Each(r, "parcels", items, 10, func(r *flow.Run, item string) (string, error) {
			return flow.Child(r, "parcel", parcel, item)
		})
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine := flow.NewEngine(new(workflow.Memory), nil, order, parcel)
	go engine.Run(ctx)
	c := workflow.NewClient(engine.Front())
	run, err := order.Start(ctx, c, []string{"lamp", "chair"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	shipped, err := run.Result(ctx)
	fmt.Println(shipped, err)
	children := 0
	for _, err := range c.Runs(ctx, workflow.Query{Parent: run.ID}) {
		if err != nil {
			log.Fatal(err)
		}
		children++
	}
	fmt.Println(children)
	// Output:
	// [lamp is on its way chair is on its way] <nil>
	// 2
}

// Of each customer one export runs at a time, and three in all, over all processes.
func ExampleLimit() {
	var running, most atomic.Int64
	export := flow.New("export", 1, func(r *flow.Run, file string) (string, error) {
		return flow.Step(r, "write", func(context.Context) (string, error) {
			defer running.Add(-1)
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			return file, nil
		})
	}, flow.Limit{Runs: 3, EachGroup: 1}, flow.Deadline(time.Hour))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine := flow.NewEngine(new(workflow.Memory), nil, export)
	go engine.Run(ctx)
	c := workflow.NewClient(engine.Front())
	for i := range 6 {
		run, err := export.Start(ctx, c, fmt.Sprint(i), &workflow.StartOptions{Group: "customer-7"})
		if err != nil {
			log.Fatal(err)
		}
		if i == 5 {
			fmt.Println(run.Result(ctx))
		}
	}
	fmt.Println(most.Load())
	// Output:
	// 5 <nil>
	// 1
}

// A run that waits for too long fails, and says why.
func ExampleDeadline() {
	order := flow.New("order", 1, func(r *flow.Run, _ any) (string, error) {
		return flow.Wait[string](r, "paid")
	}, flow.Deadline(10*time.Millisecond))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine := flow.NewEngine(new(workflow.Memory), nil, order)
	go engine.Run(ctx)
	run, err := order.Start(ctx, workflow.NewClient(engine.Front()), nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = run.Result(ctx)
	fmt.Println(errors.Is(err, flow.ErrDeadline))
	// Output: true
}

// A report of each night, once over all processes. Nights that were missed are made up.
func ExampleWorkflow_On() {
	report := flow.New("report", 1, func(r *flow.Run, night string) (int, error) {
		return flow.Step(r, "count", func(context.Context) (int, error) { return len(night), nil })
	})
	night := func(at time.Time) string { return at.AddDate(0, 0, -1).Format(time.DateOnly) }
	nightly := report.On("CRON_TZ=Europe/Berlin 30 2 * * *", night, true)
	engine := flow.NewEngine(new(workflow.Memory), nil, report, nightly)
	_ = engine.Run // starts a run at each of these times

	// The clock leaves out the hour from two to three on March 29.
	after := time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	next, err := flow.Times("CRON_TZ=Europe/Berlin 30 2 * * *", after, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, at := range next {
		fmt.Println(at.Format("Mon 15:04 -0700"), "for", night(at))
	}
	// Output:
	// Sat 02:30 +0100 for 2026-03-27
	// Sun 03:00 +0200 for 2026-03-28
	// Mon 02:30 +0200 for 2026-03-29
}

func ExampleTimes() {
	next, err := flow.Times("@every 90s", time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC), 2)
	fmt.Println(next, err)
	_, err = flow.Times("0 0 30 2 *", time.Now(), 2)
	fmt.Println(err)
	// Output:
	// [2026-01-01 00:01:30 +0000 UTC 2026-01-01 00:03:00 +0000 UTC] <nil>
	// invalid argument: schedule "0 0 30 2 *": it never comes
}
