package redissnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// No call fails while slots move: not for a new session, nor for a run that moves between two calls.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	m := redistest.Moves{
		Tags: []string{"{bot}", "{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error {
			// Three lives are followed by another session in the same slot, and another index.
			s := redissnapshot.New(client, &redissnapshot.Options{Prefix: fmt.Sprintf("p%d:", n/3)})
			return live(ctx, s, key(fmt.Sprint("s", w)), int64(n))
		},
	}
	m.Run(t, nodes, client)
}

// live takes a run from its Begin to its end, and checks what the run holds.
func live(ctx context.Context, s *redissnapshot.Store, k snapshot.Key, n int64) error {
	r := run(k.Session, fmt.Sprint("run", n), fence(3*n+1))
	r.Parts = parts("begun", n)
	if found, err := s.Begin(ctx, r); err != nil || found != nil {
		return fmt.Errorf("found %v, %w", found, err)
	}
	if err := errors.Join(s.Save(ctx, step(r, 1)), s.Save(ctx, adds(r, 2, parts("x", n)))); err != nil {
		return err
	}
	got, err := s.Adopt(ctx, k, fence(3*n+2), 9)
	if err != nil {
		return err
	}
	if got.Seq != 2 || len(got.Parts) != 1 {
		return fmt.Errorf("adopted %+v", got)
	}
	listed := false
	for r, err := range s.Runs(ctx, snapshot.Query{Key: key("")}) {
		if err != nil {
			return err
		}
		listed = listed || r.Session == k.Session
	}
	if !listed {
		return errors.New("the run is not listed")
	}
	if err := s.Delete(ctx, k, r.ID, got.Fence); err != nil {
		return err
	}
	_, err = s.Adopt(ctx, k, fence(3*n+3), 9)
	if errors.Is(err, snapshot.ErrNotFound) {
		err = nil
	}
	return err
}
