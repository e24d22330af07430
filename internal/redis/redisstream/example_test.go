package redisstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/stream"
)

// A process appends what a turn shows. Another one, with a store of its own on the same server, reads it.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store := redisstream.New(client, &redisstream.Options{TTL: 10 * time.Minute})
	key := stream.Key{Orchestrator: "shop", Session: "s-1"}
	words := []json.RawMessage{json.RawMessage(`"Hello"`)}
	if _, err := store.Append(ctx, key, "run-1", 1, stream.Ended, words); err != nil {
		log.Fatal(err)
	}
	for chunk, err := range store.Read(ctx, key, stream.Newest) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(chunk.Seq, string(chunk.Data))
	}
}
