package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// withRedis runs f with a Redis that syncs its file as appendfsync says, and a client of one connection.
func (b *bench) withRedis(
	ctx context.Context, appendfsync string, f func(*redis.Client, *redischeckpoint.Store) error,
) (err error) {
	url, stop, err := b.redis(&testenv.Options{Durable: true, Settings: map[string]string{"appendfsync": appendfsync}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	o.PoolSize = 1
	client := redis.NewClient(o)
	defer client.Close()
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	b.fact("Redis %s: appendonly yes, appendfsync %s", info["Server"]["redis_version"], appendfsync)
	return f(client, redischeckpoint.New(client, nil))
}

func (b *bench) redisTurns(ctx context.Context) error {
	// The goal is for a Redis that promises as much as the other stores. everysec shows the cost of the script itself.
	goals := map[string]goal{"always": atMost(2), "everysec": {kind: cost}}
	for _, appendfsync := range []string{"always", "everysec"} {
		err := b.withRedis(ctx, appendfsync, func(client *redis.Client, store *redischeckpoint.Store) error {
			return b.redisSettles(ctx, "Redis, appendfsync "+appendfsync, client, store, goals[appendfsync])
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// redisSettles measures settles of sessions that keep few or many turns, and prune one turn at each settle.
func (b *bench) redisSettles(
	ctx context.Context, where string, client *redis.Client, store *redischeckpoint.Store, settle goal,
) error {
	states := prose(64)
	few, err := hold(ctx, player{store, states, b.keep, "few/"})
	if err != nil {
		return err
	}
	many, err := hold(ctx, player{store, states, b.kept, "many/"})
	if err != nil {
		return err
	}
	err = b.compete(ctx, contest{
		what: where, workers: 1, reference: subject{name: "SET of the state", op: set(client, states, b.kept)},
		subjects: []subject{
			{name: fmt.Sprintf("Append, %d turns kept", b.kept), op: many.settleNext, goal: settle},
			{name: fmt.Sprintf("Append, %d turns kept", b.keep), op: few.settleNext, goal: goal{kind: cost}},
		},
	})
	if err != nil {
		return err
	}
	return b.compete(ctx, contest{
		what: where, workers: 1, reference: subject{name: fmt.Sprintf("%d turns kept", b.keep), op: few.settleNext},
		subjects: []subject{{name: fmt.Sprintf("Append, %d turns kept", b.kept), op: many.settleNext, goal: flat}},
	})
}

// set writes states to so many keys in turn.
func set(client *redis.Client, states []json.RawMessage, keys int) operation {
	n := 0
	return func(ctx context.Context, _ int) error {
		n++
		return client.Set(ctx, fmt.Sprintf("plain:%d", n%keys), []byte(states[n%len(states)]), 0).Err()
	}
}

func (b *bench) redisHistory(ctx context.Context) error {
	return b.withRedis(ctx, "always", func(_ *redis.Client, store *redischeckpoint.Store) error {
		return b.history(ctx, "Redis", store)
	})
}

// A holder settles turn after turn of one session without releasing it.
type holder struct {
	player
	lease checkpoint.Lease
	turn  int
}

// hold claims a session that is past its keep threshold.
func hold(ctx context.Context, p player) (*holder, error) {
	if err := p.fill(ctx, sessionName(0), p.keep+5); err != nil {
		return nil, err
	}
	c, err := p.claim(ctx, sessionName(0))
	return &holder{p, c.Lease, following(c.Last)}, err
}

func (h *holder) settleNext(ctx context.Context, _ int) error {
	err := h.settle(ctx, h.lease, h.turn, checkpoint.AppendOptions{})
	h.turn++
	return err
}
