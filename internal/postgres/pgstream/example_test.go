package pgstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/stream"
)

// A process appends what a turn shows. Another one, with a store of its own on the same database, reads it.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store := pgstream.New(pool, nil)
	if _, err := pool.Exec(ctx, store.Schema()); err != nil { // or migrations.Up
		log.Fatal(err)
	}
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
