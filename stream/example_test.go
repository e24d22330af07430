package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/stream"
)

// A reader that was cut off goes on after the last chunk that it has seen.
func Example() {
	ctx := context.Background()
	key := stream.Key{Orchestrator: "shop", Session: "s-1"}
	var store stream.Memory
	words := []json.RawMessage{json.RawMessage(`"Your"`), json.RawMessage(`"order"`), json.RawMessage(`"is here"`)}
	if _, err := store.Append(ctx, key, "run-1", 1, stream.Ended, words); err != nil {
		log.Fatal(err)
	}
	var last int64
	for chunk, err := range store.Read(ctx, key, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(chunk.Seq, string(chunk.Data))
		last = chunk.Seq
		break // the connection is cut
	}
	for chunk, err := range store.Read(ctx, key, last) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(chunk.Seq, string(chunk.Data))
	}
	// Output:
	// 1 "Your"
	// 2 "order"
	// 3 "is here"
}
