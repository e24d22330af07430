package redisstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

func key(session string) stream.Key { return stream.Key{Orchestrator: "bot", Session: session} }

func docs(n int) []json.RawMessage {
	all := make([]json.RawMessage, n)
	for i := range all {
		all[i] = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
	}
	return all
}

func add(t *testing.T, s stream.Store, k stream.Key, epoch int64, status stream.Status, n int) int64 {
	t.Helper()
	last, err := s.Append(t.Context(), k, "r-1", epoch, status, docs(n))
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func readError(ctx context.Context, s stream.Store, k stream.Key, seq int64) (n int, err error) {
	for _, err := range s.Read(ctx, k, seq) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
