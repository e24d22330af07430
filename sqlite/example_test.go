package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/sqlite"
)

type State struct{ Reply string }

// All stores of a bot in one file.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, err := sqlite.Open(filepath.Join(dir, "sessions.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	lite := sqlite.New(file, nil)
	if err := lite.Up(ctx); err != nil {
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
	}, lite.Checkpoints(), &orchestrator.Options{Snapshots: lite.Snapshots(), TurnLog: lite.TurnLog()})
	if err != nil {
		log.Fatal(err)
	}
	res, err := bot.Execute(ctx, "customer-7", orchestrator.Input{RequestID: "request-1", Text: "Hello"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Reply)
	// Output: You said: Hello
}

// A refund is booked in a table of the application, in the transaction that records the effect. The turn runs twice,
// and the refund is booked once. With package postgres it is the same, on a pgx.Tx.
func ExampleOnce() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	lite := sqlite.New(file, nil)
	if err := lite.Up(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := file.ExecContext(ctx, "CREATE TABLE refunds (number INTEGER PRIMARY KEY, cents INTEGER)"); err != nil {
		log.Fatal(err)
	}
	refund := func(run string) (number int64, err error) {
		tx, err := file.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback()
		e := ledger.Effect{
			ID: "refund of A-1042", Orchestrator: "shop", Session: "customer-7", RunID: run, Name: "refund",
			Key: "A-1042", Fence: lock.Fence{Epoch: 1, Nonce: "from Claim"},
		}
		number, err = sqlite.Once(ctx, lite, tx, e, func(ctx context.Context) (int64, error) {
			res, err := tx.ExecContext(ctx, "INSERT INTO refunds (cents) VALUES (1900)")
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		})
		if err != nil {
			return 0, err
		}
		return number, tx.Commit()
	}
	for _, run := range []string{"first message", "second message"} {
		number, err := refund(run)
		fmt.Printf("%s: refund %d, %v\n", run, number, err)
	}
	// Output:
	// first message: refund 1, <nil>
	// second message: refund 1, <nil>
}
