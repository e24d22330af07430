package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
)

// A turn is settled in a file and read back.
func Example() {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dsn := "file:" + filepath.Join(dir, "sessions.db") +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ctx := context.Background()
	store := sqlitecheckpoint.New(db, nil)
	if _, err := db.ExecContext(ctx, store.Schema()); err != nil {
		log.Fatal(err)
	}

	key := checkpoint.Key{Orchestrator: "refund", Session: "A-1042"}
	claimed, err := store.Claim(ctx, key, checkpoint.ClaimRequest{
		Owner: "host-1", Nonce: "5f1c", TTL: 30 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	turn := checkpoint.Checkpoint{Turn: 0, RunID: "run-1", State: json.RawMessage(`{"order": "A-1042"}`)}
	if err := store.Append(ctx, claimed.Lease, turn, checkpoint.AppendOptions{Release: true}); err != nil {
		log.Fatal(err)
	}

	newest, err := checkpoint.Load(ctx, store, key, checkpoint.Newest)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(newest.Turn, newest.RunID, string(newest.State))
	// Output: 0 run-1 {"order": "A-1042"}
}
