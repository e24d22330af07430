package pginbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
)

// A page posts the answer of a person. If another person was first, the page says so.
func ExampleStore() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store := pginbox.New(pool, nil)

	shown, err := inbox.Sum("Refund 250.00 for order A-1042?")
	if err != nil {
		log.Fatal(err)
	}
	first, err := store.Post(ctx, inbox.Item{
		Key:  inbox.Key{Orchestrator: "refunds", Session: "customer-7"},
		Kind: inbox.Answer, ID: "question 1", By: "ada", Shown: shown, Data: json.RawMessage(`{"approve":true}`),
	})
	switch {
	case err != nil:
		log.Fatal(err) // it may be there, and may be posted again
	case !first:
		fmt.Println("somebody else has answered")
	}
}
