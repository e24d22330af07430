package pglocker_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/lock"
)

// Listen gives waiters a connection of their own. The pool is only for statements.
func Example() {
	ctx := context.Background()
	url := os.Getenv("DATABASE_URL")
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	room := pglocker.New(pool, &pglocker.Options{
		Owner:  "pod-7",
		Listen: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) },
	})

	held, unlock, err := room.Lock(ctx, lock.Key("refund-bot", "A-1042"))
	if err != nil {
		log.Fatal(err)
	}
	defer unlock()
	// Work that uses held ends with the lock.
	<-held.Done()
}
