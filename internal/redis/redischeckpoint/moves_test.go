package redischeckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// No call fails while slots move, even if the session is new, has no request ids, or moves between two calls.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{TTL: time.Hour})
	m := redistest.Moves{
		Tags: []string{"{bot}", "{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error { return live(ctx, s, key(fmt.Sprint("s", w)), n) },
	}
	m.Run(t, nodes, client)
}

// live leads a session from its first claim to its end, and checks its data.
func live(ctx context.Context, s *redischeckpoint.Store, k checkpoint.Key, n int) error {
	r := request(fmt.Sprint("n", n), time.Hour)
	r.RequestID = "asked"
	c, err := s.Claim(ctx, k, r)
	if err != nil {
		return err
	}
	if c.Last != nil {
		return fmt.Errorf("a deleted session has %+v", c.Last)
	}
	for i := range 4 {
		cp := turn(i, fmt.Sprintf("r%d-%d", n, i))
		if i%2 == 0 {
			cp.RequestID = ""
		}
		err := s.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: 2, Owes: i == 1})
		if err == nil && i == 0 {
			_, err = s.Renew(ctx, time.Hour, []checkpoint.Lease{c.Lease})
		}
		if err != nil {
			return err
		}
	}
	held, err := s.Held(ctx, k.Orchestrator, []string{k.Session})
	if err == nil && len(held) != 1 {
		err = errors.New("the session is not held")
	}
	if err != nil {
		return err
	}
	if err := s.Mark(ctx, c.Lease, checkpoint.Marks{Delivered: 4, Release: true}); err != nil {
		return err
	}
	return end(ctx, s, k)
}

func end(ctx context.Context, s *redischeckpoint.Store, k checkpoint.Key) error {
	c, err := s.Claim(ctx, k, request("last", time.Hour))
	if err != nil {
		return err
	}
	if c.Last == nil || c.Last.Turn != 3 {
		return fmt.Errorf("after turn 3 the last is %+v", c.Last)
	}
	for _, err := range s.Turns(ctx, k, checkpoint.Newest) {
		if err != nil {
			return err
		}
	}
	for _, owing := range []bool{false, true} {
		for _, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: k.Orchestrator, Owing: owing}) {
			if err != nil {
				return err
			}
		}
	}
	return s.Delete(ctx, c.Lease)
}
