package redissnapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// After a crash another process lists the runs in flight, adopts each, and continues from its last save.
func ExampleStore() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store := redissnapshot.New(client, nil)

	ctx := context.Background()
	for found, err := range store.Runs(ctx, snapshot.Query{
		Key: snapshot.Key{Orchestrator: "refunds"}, Status: snapshot.Running,
	}) {
		if err != nil {
			log.Fatal(err)
		}
		// The checkpoint store issues fences.
		run, err := store.Adopt(ctx, found.Key, lock.Fence{Epoch: 1760000000000000, Nonce: "4f1c"}, 3)
		if err != nil {
			log.Fatal(err)
		}
		run.Seq++
		run.Payload = json.RawMessage(`{"refunded":true}`)
		if err := store.Save(ctx, run); err != nil {
			log.Fatal(err)
		}
		fmt.Println("resumed", run.ID, "of", run.Session)
	}
}
