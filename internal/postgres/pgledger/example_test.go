package pgledger_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A refund is booked in a table of the application, in the transaction that records the effect. The turn runs twice,
// and the refund is booked once.
func ExampleTx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("HOLDFAST_TEST_POSTGRES_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	effects := pgledger.New(conn, &pgledger.Options{Prefix: "pg_temp.example_"})
	const refunds = "CREATE TEMPORARY TABLE refunds (number serial, order_id text, cents integer);"
	if _, err := conn.Exec(ctx, refunds+effects.Schema()); err != nil {
		log.Fatal(err)
	}

	refund := func(run string) (number int, err error) {
		e := ledger.Effect{
			ID: "refund of A-1042", Orchestrator: "shop", Session: "customer-7", RunID: run, Name: "refund",
			Key: "A-1042", Fence: lock.Fence{Epoch: 1, Nonce: "from Claim"},
		}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			number, err = pgledger.Tx(ctx, effects, tx, e, func(ctx context.Context) (number int, err error) {
				const insert = "INSERT INTO refunds (order_id, cents) VALUES ('A-1042', 1900) RETURNING number"
				err = tx.QueryRow(ctx, insert).Scan(&number)
				return number, err
			})
			return err
		})
		return number, err
	}
	for _, run := range []string{"first message", "second message"} {
		number, err := refund(run)
		fmt.Printf("%s: refund %d, %v\n", run, number, err)
	}
	var booked int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM refunds").Scan(&booked); err != nil {
		log.Fatal(err)
	}
	fmt.Println("booked:", booked)
	// Output:
	// first message: refund 1, <nil>
	// second message: refund 1, <nil>
	// booked: 1
}
