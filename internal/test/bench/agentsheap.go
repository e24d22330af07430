package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
)

// agentsHeap measures what sessions cost a process while all their models think, and once all are idle.
func (b *bench) agentsHeap(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		st := agentStores(pool)
		t, err := newTalker(st, 8, window, b.loops, false)
		if err == nil {
			err = t.create(ctx)
		}
		if err == nil {
			// After that, what each connection keeps is there, and the messages that were read are in the cache. The
			// next turn moves none.
			_, _, err = t.think(ctx)
		}
		if err != nil {
			return err
		}
		heap0, goroutines0 := kept()
		heap1, goroutines1, err := t.think(ctx)
		heap2, goroutines2 := kept()
		for _, row := range []struct {
			what string
			goal goal
			of   float64
		}{
			{"in their models", keeping(64, "KiB of heap each"), (heap1 - heap0) / 1024},
			{"in their models", keeping(0, "goroutines each"), goroutines1 - goroutines0},
			{"idle", keeping(1, "KiB of heap each"), (heap2 - heap0) / 1024},
			{"idle", keeping(0.01, "goroutines each"), goroutines2 - goroutines0},
		} {
			what := fmt.Sprintf("PostgreSQL, agent, %d sessions: %s", b.loops, row.what)
			b.count(what, row.goal, max(row.of, 0)/float64(b.loops))
		}
		return err
	})
}

// think plays a turn of each session. It returns what they keep while all models think.
func (t *talker) think(ctx context.Context) (heap, goroutines float64, err error) {
	thinking, goOn := make(chan struct{}, t.sessions), make(chan struct{})
	t.thinks = func() {
		thinking <- struct{}{}
		<-goOn
	}
	errs := make(chan error, t.sessions)
	for i := range t.sessions {
		go func() { errs <- t.play(ctx, sessionName(i)) }()
	}
	for range t.sessions {
		select {
		case <-thinking:
		case err := <-errs:
			close(goOn)
			return 0, 0, errors.Join(errors.New("a turn has ended early"), err)
		}
	}
	heap, goroutines = kept()
	close(goOn)
	for range t.sessions {
		err = errors.Join(err, <-errs)
	}
	return heap, goroutines, err
}
