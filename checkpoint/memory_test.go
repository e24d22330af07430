package checkpoint_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
)

func TestMemory(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpoint.Store { return new(checkpoint.Memory) })
}

func TestMemorySweep(t *testing.T) {
	checkpointtest.RunSweeper(t, func(_ *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return &checkpoint.Memory{TTL: ttl}
	})
}

func BenchmarkMemory(b *testing.B) { checkpointtest.Bench(b, new(checkpoint.Memory)) }
