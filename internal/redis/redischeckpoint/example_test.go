package redischeckpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// An owner settles a turn. If another had claimed the session meanwhile, the owner would get an error and change
// nothing.
func ExampleStore() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store := redischeckpoint.New(client, &redischeckpoint.Options{TTL: 90 * 24 * time.Hour})

	ctx := context.Background()
	k := checkpoint.Key{Orchestrator: "refunds", Session: "customer-17"}
	c, err := store.Claim(ctx, k, checkpoint.ClaimRequest{Owner: "pod-3/41", Nonce: "4f1c", TTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	next := checkpoint.Checkpoint{RunID: "run-1", State: json.RawMessage(`{"refunded":true}`)}
	if c.Last != nil {
		next.Turn = c.Last.Turn + 1
	}
	err = store.Append(ctx, c.Lease, next, checkpoint.AppendOptions{Release: true})
	if errors.Is(err, lock.ErrFenced) {
		fmt.Println("another has taken over")
	}
}
