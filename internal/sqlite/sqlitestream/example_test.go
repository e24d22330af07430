package sqlitestream_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/stream"
)

// What one process appends, another one reads that has opened the same file.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dsn := sqlitetest.DSN(filepath.Join(dir, "bot.db"))
	one, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer one.Close()
	two, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer two.Close()
	ctx := context.Background()
	writer, reader := sqlitestream.New(one, nil), sqlitestream.New(two, nil)
	if _, err := one.ExecContext(ctx, writer.Schema()); err != nil { // or migrations.Up
		log.Fatal(err)
	}
	key := stream.Key{Orchestrator: "shop", Session: "s-1"}
	words := []json.RawMessage{json.RawMessage(`"Hello"`), json.RawMessage(`"there"`)}
	if _, err := writer.Append(ctx, key, "run-1", 1, stream.Ended, words); err != nil {
		log.Fatal(err)
	}
	for chunk, err := range reader.Read(ctx, key, stream.Newest) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(chunk.Seq, string(chunk.Data))
	}
	// Output:
	// 1 "Hello"
	// 2 "there"
}
