package redisinbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisinbox"
)

// A process that starts lists the answers that lie in the inbox, of all sessions of its bot.
func ExampleStore() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store := redisinbox.New(client, nil)

	for it, err := range store.Items(context.Background(), inbox.Key{Orchestrator: "refunds"}, inbox.Answer) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(it.By, "answers", it.ID, "of", it.Session)
	}
}
