package sqlitesnapshot_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A process leaves a run in a file. The next process finds the run, and makes its fence known before it continues.
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
	store := sqlitesnapshot.New(db, nil)
	if _, err := db.ExecContext(ctx, store.Schema()); err != nil {
		log.Fatal(err)
	}

	run := snapshot.Run{
		Key: snapshot.Key{Orchestrator: "refund", Session: "A-1042"}, ID: "run-1", Attempt: 1, Status: snapshot.Running,
		Fence: lock.Fence{Epoch: 1, Nonce: "5f1c"}, Payload: json.RawMessage(`{"input": "refund me"}`),
	}
	if _, err := store.Begin(ctx, run); err != nil {
		log.Fatal(err)
	}
	run.Seq, run.Payload = 1, json.RawMessage(`{"input": "refund me", "classified": true}`)
	if err := store.Save(ctx, run); err != nil {
		log.Fatal(err)
	}

	fence := lock.Fence{Epoch: 2, Nonce: "c07e"}
	for left, err := range store.Runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: "refund"}}) {
		if err != nil {
			log.Fatal(err)
		}
		adopted, err := store.Adopt(ctx, left.Key, fence, 3)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(adopted.ID, adopted.Attempt, string(adopted.Payload))
	}
	run.Seq = 2
	fmt.Println(errors.Is(store.Save(ctx, run), lock.ErrFenced))
	fmt.Println(store.Delete(ctx, run.Key, run.ID, fence))
	// Output:
	// run-1 2 {"input": "refund me", "classified": true}
	// true
	// <nil>
}
