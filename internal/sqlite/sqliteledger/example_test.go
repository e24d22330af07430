package sqliteledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A refund is booked in a table of the program. The booking and the note that it was made commit together. So the
// refund is booked once, however often it is tried.
func ExampleTx() {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dsn := "file:" + filepath.Join(dir, "shop.db") +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ctx := context.Background()
	l := sqliteledger.New(db, nil)
	const refunds = "CREATE TABLE refunds (number INTEGER PRIMARY KEY, order_id TEXT, cents INTEGER)"
	if _, err := db.ExecContext(ctx, l.Schema()+refunds); err != nil {
		log.Fatal(err)
	}

	refund := func() (number int64, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback()
		e := ledger.Effect{
			ID: "7f3a", Orchestrator: "support", Session: "s", RunID: "r1", Name: "refund", Key: "order 7",
			Fence: lock.Fence{Epoch: 1, Nonce: "n1"},
		}
		number, err = sqliteledger.Tx(ctx, l, tx, e, func(ctx context.Context) (int64, error) {
			fmt.Println("booking")
			res, err := tx.ExecContext(ctx, "INSERT INTO refunds (order_id, cents) VALUES ('order 7', 4200)")
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
	for range 2 {
		fmt.Println(refund())
	}
	// Output:
	// booking
	// 1 <nil>
	// 1 <nil>
}
