package postgres_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
)

type State struct{ Reply string }

// All stores of a bot in one database. Sessions go three months after their last turn.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pg := postgres.New(pool, &postgres.Options{Ages: postgres.Ages{Sessions: 90 * 24 * time.Hour}})
	if err := pg.Up(ctx); err != nil {
		log.Fatal(err)
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "shop",
		Intents: orchestrator.Intents[State]{"answer": {
			Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				t.State.Reply = "You said: " + t.Input.Text
				return nil
			},
		}},
	}, pg.Checkpoints(), &orchestrator.Options{
		Snapshots: pg.Snapshots(), Ledger: pg.Ledger(), TurnLog: pg.TurnLog(), Stream: pg.Stream(),
	})
	if err != nil {
		log.Fatal(err)
	}
	in := orchestrator.Input{RequestID: "request-1", Text: "Hello"}
	if _, err := bot.Execute(ctx, "customer-7", in, nil); err != nil {
		log.Fatal(err)
	}
}

// After a failover to an asynchronous standby that was up to a minute behind, before traffic is let in.
func ExampleDB_Raise() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	lost := time.Now().Add(-time.Minute)
	if err := postgres.New(pool, nil).Raise(ctx, lost, 24*time.Hour); err != nil {
		log.Fatal(err)
	}
}
