package pgcheckpoint_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// One turn by hand: claimed, and settled.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	store := pgcheckpoint.New(pool, nil) // or sqlitecheckpoint, redischeckpoint, checkpoint.Memory
	session := checkpoint.Key{Orchestrator: "refund-bot", Session: "A-1042"}

	c, err := store.Claim(ctx, session, checkpoint.ClaimRequest{
		Owner: "pod-7", Nonce: rand.Text(), TTL: 30 * time.Second,
	})
	if errors.Is(err, lock.ErrHeld) {
		log.Fatal("another process answers this customer")
	} else if err != nil {
		log.Fatal(err)
	}
	next := checkpoint.Checkpoint{RunID: rand.Text(), State: json.RawMessage(`{"step":"classified"}`)}
	if c.Last != nil {
		next.Turn = c.Last.Turn + 1
	}
	if err := store.Append(ctx, c.Lease, next, checkpoint.AppendOptions{Release: true}); err != nil {
		log.Fatal(err) // lock.ErrFenced: another has taken over, and what it settles counts
	}
}
