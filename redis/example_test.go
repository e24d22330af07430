package redis_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
)

type State struct{ Reply string }

// Turns and effects in PostgreSQL, and what changes often in Redis.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	at, err := goredis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	client := goredis.NewClient(at)
	defer client.Close()

	pg, rd := postgres.New(pool, nil), redis.New(client, nil)
	if err := rd.Check(ctx); err != nil { // redis.ErrUnfit: the server evicts, or the user lacks a right
		log.Fatal(err)
	}
	_, err = orchestrator.New(orchestrator.Definition[State]{
		Name: "shop",
		Intents: orchestrator.Intents[State]{"answer": {
			Run: func(_ context.Context, t *orchestrator.Turn[State]) error { return nil },
		}},
	}, pg.Checkpoints(), &orchestrator.Options{
		Snapshots: rd.Snapshots(), Stream: rd.Stream(), Locker: rd.Locker(), Ledger: pg.Ledger(),
	})
	if err != nil {
		log.Fatal(err)
	}
}
