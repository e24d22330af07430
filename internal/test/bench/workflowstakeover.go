package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// The environment of a process that owns runs until it is killed.
const (
	ownURL  = "HOLDFAST_BENCH_OWN"
	ownRuns = "HOLDFAST_BENCH_OWN_RUNS"
)

// takenOver is within what time runs of a killed process go on.
const takenOver = 7 * time.Second

// beatsBegin is after what time a process that owns something has beaten, and is known to others.
const beatsBegin = 3 * time.Second

// orphans returns a workflow whose step does fn.
func orphans(fn func(context.Context) error) *flow.Workflow[string, string] {
	return flow.New("orphans", 1, func(r *flow.Run, _ string) (string, error) { return "", flow.Do(r, "go-on", fn) })
}

// own owns runs until it is killed. It prints a line when all their steps have begun.
func own(ctx context.Context) error {
	n, err := strconv.Atoi(os.Getenv(ownRuns))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, os.Getenv(ownURL))
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := workflowsOf(ctx, pool)
	if err != nil {
		return err
	}
	begun := make(chan struct{})
	es := newEngines(ctx)
	w := orphans(func(ctx context.Context) error {
		begun <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	front := es.run(db.Workflows(), flow.Options{Workers: n}, w).Front()
	for range n {
		if _, err := w.Start(ctx, workflow.NewClient(front), "", nil); err != nil {
			return err
		}
		select {
		case <-begun:
		case <-time.After(time.Minute):
			return errors.New("a run does not begin")
		}
	}
	fmt.Println("begun")
	<-ctx.Done()
	return es.stop()
}

// workflowsTakeover measures how long it takes from the kill of a process until its runs go on in another one.
func (b *bench) workflowsTakeover(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, db *postgres.DB) error {
		var rounds []latencies
		for range b.kills {
			l, err := b.takeover(ctx, pool, db)
			if err != nil {
				return err
			}
			rounds = append(rounds, l)
		}
		what := fmt.Sprintf("PostgreSQL, takeover of %d runs after kill -9", b.orphans)
		for _, p := range []struct {
			name  string
			share float64
			goal  goal
		}{{"p50", 0.5, goal{kind: latency}}, {"p99", 0.99, below(takenOver)}} {
			r := result{what: what + ": " + p.name, reference: "–", workers: 1, goal: p.goal}
			for _, l := range rounds {
				r.samples = append(r.samples, sample{rate: perNano(l.at(p.share))})
			}
			b.add(r)
		}
		return nil
	})
}

func (b *bench) takeover(ctx context.Context, pool *pgxpool.Pool, db *postgres.DB) (l latencies, err error) {
	child, err := b.owner(ctx, pool)
	if err != nil {
		return l, err
	}
	killed := false
	defer func() {
		if !killed {
			_ = child.Process.Kill()
			_ = child.Wait()
		}
	}()
	took := make(chan time.Time, b.orphans)
	es := newEngines(ctx)
	defer func() { err = errors.Join(err, es.stop()) }()
	es.run(db.Workflows(), flow.Options{}, orphans(func(context.Context) error {
		took <- time.Now()
		return nil
	}))
	if err := sleep(ctx, beatsBegin); err != nil {
		return l, err
	}
	died := time.Now()
	killed = true
	if err := child.Process.Kill(); err != nil {
		return l, err
	}
	_ = child.Wait() // it was killed
	for range b.orphans {
		select {
		case at := <-took:
			l.sorted = append(l.sorted, at.Sub(died))
		case <-ctx.Done():
			return l, context.Cause(ctx)
		}
	}
	slices.Sort(l.sorted)
	if l.sorted[0] < 0 {
		err = errors.New("a run was taken over from a process that lived")
	}
	return l, err
}

// owner starts a process that owns runs, and returns when their steps have begun.
func (b *bench) owner(ctx context.Context, pool *pgxpool.Pool) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, exe)
	child.Env = append(os.Environ(), ownURL+"="+pool.Config().ConnString(), ownRuns+"="+strconv.Itoa(b.orphans))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = child.Process.Kill()
		return nil, errors.Join(err, child.Wait())
	}
	return child, nil
}
