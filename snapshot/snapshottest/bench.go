package snapshottest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

// Bench measures what a turn of two iterations costs: Begin, Save and Delete, with 4 KiB of payload.
func Bench(b *testing.B, s snapshot.Store) {
	ctx := b.Context()
	payload := json.RawMessage(fmt.Sprintf(`{"messages":[%q]}`,
		strings.Repeat("Where is my order? It should have been here by now. ", 78)))
	// The epochs are higher than the epochs of an earlier benchmark.
	for epoch := time.Now().UnixMicro(); b.Loop(); epoch++ {
		r := run("bench", fence(epoch))
		r.Payload = payload
		if found, err := s.Begin(ctx, r); err != nil || found != nil {
			b.Fatal(found, err)
		}
		r.Seq++
		if err := s.Save(ctx, r); err != nil {
			b.Fatal(err)
		}
		if err := s.Delete(ctx, r.Key, r.ID, r.Fence); err != nil {
			b.Fatal(err)
		}
	}
}
