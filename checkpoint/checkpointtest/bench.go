package checkpointtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Bench measures the cost of a turn with 4 KiB of state: a claim, and an Append that gives the session back.
func Bench(b *testing.B, s checkpoint.Store) {
	ctx := b.Context()
	state := json.RawMessage(fmt.Sprintf(`{"messages":[%q]}`,
		strings.Repeat("Where is my order? It should have been here by now. ", 78)))
	cp := checkpoint.Checkpoint{State: state, Signature: "bench"}
	for b.Loop() {
		c, err := s.Claim(ctx, key("bench"), request(time.Minute))
		if err != nil {
			b.Fatal(err)
		}
		cp.RunID = c.Fence.Nonce
		if err := s.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: 50, Release: true}); err != nil {
			b.Fatal(err)
		}
		cp.Turn++
	}
}
