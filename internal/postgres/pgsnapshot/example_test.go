package pgsnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Both stores call functions, as on Citus, and their schemas create these functions.
func ExampleOptions() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	turns := pgcheckpoint.New(pool, &pgcheckpoint.Options{Prefix: "bots.holdfast_", Functions: true})
	runs := pgsnapshot.New(pool, &pgsnapshot.Options{Prefix: "bots.holdfast_", Functions: true})
	if _, err := pool.Exec(ctx, turns.Schema()+runs.Schema()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("one function settles in both:", runs.Join(turns) != nil)
}

// A new owner claims the session, and so gets a fence. It adopts each run that it finds with this fence before it uses
// the run.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	store := pgsnapshot.New(pool, nil)
	fence := lock.Fence{Epoch: 2, Nonce: "from Claim"}

	for found, err := range store.Runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: "refund-bot"}}) {
		if err != nil {
			log.Fatal(err)
		}
		run, err := store.Adopt(ctx, found.Key, fence, 3)
		switch {
		case errors.Is(err, lock.ErrFenced), errors.Is(err, snapshot.ErrNotFound): // another owner was faster
		case errors.Is(err, snapshot.ErrParked):
			fmt.Println(run.Session, "failed too often:", run.Error)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(run.Session, "goes on from", string(run.Payload))
		}
	}
}
