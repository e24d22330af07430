package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

const (
	wokenP50 = 5 * time.Millisecond
	wokenP99 = 20 * time.Millisecond

	// besides is how many steps a second the same engine makes beside, and busier how much longer a signal may take
	// then.
	besides = 500
	busier  = 3

	betweenSignals = 5 * time.Millisecond
)

// workflowsSignals measures how long it takes from a signal to the step that waited for it: in another process with
// PostgreSQL, which notifies, and in the same one with SQLite.
func (b *bench) workflowsSignals(ctx context.Context) error {
	err := b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, here *postgres.DB) error {
		other, err := pgxpool.NewWithConfig(ctx, pool.Config())
		if err != nil {
			return err
		}
		defer other.Close()
		there, err := workflowsOf(ctx, other)
		if err != nil {
			return err
		}
		return b.signals(ctx, "PostgreSQL, Listen", here.Workflows(), there.Workflows())
	})
	if err != nil {
		return err
	}
	return b.withSQLiteWorkflows(ctx, "signals.db", func(_ *sql.DB, db *sqlite.DB) error {
		return b.signals(ctx, "SQLite", db.Workflows(), db.Workflows())
	})
}

// A wakening is a workflow that waits for a signal, and then says when its step began.
type wakening struct {
	front  workflow.Front // of the engine
	sender *workflow.Client
	heard  chan time.Time
	ten    operation
}

func (b *bench) signals(ctx context.Context, where string, here workflow.Store, there workflow.Front) (err error) {
	es := newEngines(ctx)
	defer func() { err = errors.Join(err, es.stop()) }()
	w := &wakening{sender: workflow.NewClient(there), heard: make(chan time.Time, 1)}
	waits := flow.New("waits", 1, func(r *flow.Run, _ string) (string, error) {
		if _, err := flow.Wait[string](r, "go"); err != nil {
			return "", err
		}
		return "", flow.Do(r, "hear", func(context.Context) error {
			w.heard <- time.Now()
			return nil
		})
	})
	ten := flow.New("ten", 1, tenSteps)
	w.front = es.run(here, flow.Options{}, waits, ten).Front()
	w.ten = func(ctx context.Context, _ int) error {
		_, err := ten.Start(ctx, workflow.NewClient(w.front), "hello", nil)
		return err
	}
	var idle, busy []latencies
	for range b.rounds {
		quiet, err := w.round(ctx, b.signalled, 0)
		if err != nil {
			return err
		}
		loud, err := w.round(ctx, b.signalled, besides)
		if err != nil {
			return err
		}
		idle, busy = append(idle, quiet), append(busy, loud)
	}
	beside := fmt.Sprintf("%s, signal to step beside %d steps/s", where, besides)
	b.addLatencies(where+", signal to step, idle", idle, wokenP50, wokenP99)
	b.addLatencies(beside, busy, busier*wokenP50, busier*wokenP99)
	return nil
}

// latencies are those of a round, and the median of a reference.
type latencies struct {
	reference time.Duration
	sorted    []time.Duration
}

func (l latencies) at(share float64) time.Duration {
	return l.sorted[int(share*float64(len(l.sorted)-1)+0.5)]
}

func (b *bench) addLatencies(what string, rounds []latencies, p50, p99 time.Duration) {
	for _, p := range []struct {
		name  string
		share float64
		most  time.Duration
	}{{"p50", 0.5, p50}, {"p99", 0.99, p99}} {
		r := result{what: what + ": " + p.name, reference: "Signal alone", workers: 1, goal: below(p.most)}
		for _, l := range rounds {
			r.samples = append(r.samples, sample{reference: perNano(l.reference), rate: perNano(l.at(p.share))})
		}
		b.add(r)
	}
}

func perNano(d time.Duration) float64 { return 1 / d.Seconds() }

// round signals n runs one after the other, beside so many steps a second.
func (w *wakening) round(ctx context.Context, n, steps int) (l latencies, err error) {
	runs, err := w.wait(ctx, n)
	if err != nil {
		return l, err
	}
	besides, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	var failed atomic.Pointer[error]
	if steps > 0 {
		beside.Go(func() {
			if err := paced(besides, time.Second*time.Duration(stepsEach)/time.Duration(steps), w.ten); err != nil {
				failed.Store(&err)
			}
		})
	}
	defer func() {
		stop()
		beside.Wait()
		if other := failed.Load(); other != nil {
			err = errors.Join(err, *other)
		}
	}()
	var sent []time.Duration
	for _, run := range runs {
		if err := sleep(ctx, betweenSignals); err != nil {
			return l, err
		}
		began := time.Now()
		if _, err := w.sender.Signal(ctx, run, "go", "now", ""); err != nil {
			return l, err
		}
		sent = append(sent, time.Since(began))
		select {
		case at := <-w.heard:
			l.sorted = append(l.sorted, at.Sub(began))
		case <-ctx.Done():
			return l, context.Cause(ctx)
		}
	}
	slices.Sort(sent)
	slices.Sort(l.sorted)
	l.reference = sent[len(sent)/2]
	return l, nil
}

// wait starts n runs, and returns them when all wait.
func (w *wakening) wait(ctx context.Context, n int) (runs []string, err error) {
	c := workflow.NewClient(w.front)
	for range n {
		s, err := c.Start(ctx, "waits", "", nil)
		if err != nil {
			return nil, err
		}
		runs = append(runs, s.ID)
	}
	return runs, allWait(ctx, w.front, n)
}

// allWait returns when so many runs wait for the event go.
func allWait(ctx context.Context, front workflow.Front, n int) error {
	for {
		waiting, err := count(front.Runs(ctx, workflow.Query{Workflow: "waits", Event: "go"}))
		if err != nil || waiting == n {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// paced repeats op at a pace, until ctx ends.
func paced(ctx context.Context, every time.Duration, op operation) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := op(ctx, 0); err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
