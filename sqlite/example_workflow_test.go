package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// An order and the run that books it are there both, or neither. The booking and its journal row commit together, so
// that the seat is booked once, whatever crashes.
func ExampleDB_In() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, err := sqlite.Open(filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	db := sqlite.New(file, nil)
	if err := db.Up(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := file.ExecContext(ctx, "CREATE TABLE orders (seat TEXT); CREATE TABLE booked (seat TEXT)"); err != nil {
		log.Fatal(err)
	}

	book := flow.New("book", 1, func(r *flow.Run, seat string) (int64, error) {
		return flow.StepTx(r, "book", db, func(ctx context.Context, tx *sql.Tx) (int64, error) {
			res, err := tx.ExecContext(ctx, "INSERT INTO booked (seat) VALUES (?)", seat)
			if err != nil {
				return 0, err
			}
			return res.RowsAffected()
		})
	})
	engine := flow.NewEngine(db.Workflows(), nil, book)
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()

	tx, err := file.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (seat) VALUES ('7A')"); err != nil {
		log.Fatal(err)
	}
	run, err := book.Start(ctx, workflow.NewClient(db.In(tx)), "7A", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(book.Handle(workflow.NewClient(engine.Front()), run.ID).Result(ctx))
	stop() // as SIGTERM does
	fmt.Println(<-ended)
	// Output:
	// 1 <nil>
	// <nil>
}
