package checkpoint_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/faulttest"
)

func TestMemory(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpoint.Store { return new(checkpoint.Memory) })
}

func TestMemorySweep(t *testing.T) {
	checkpointtest.RunSweeper(t, func(_ *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return &checkpoint.Memory{TTL: ttl}
	})
}

func TestMemoryUnsettled(t *testing.T) {
	checkpointtest.RunUnsettled(t, func(_ *testing.T, unsettled time.Duration) checkpointtest.SweepingStore {
		return &checkpoint.Memory{Unsettled: unsettled}
	})
}

func TestMemoryWatch(t *testing.T) {
	checkpointtest.RunWatcher(t, func(*testing.T) checkpointtest.WatchingStore { return new(checkpoint.Memory) })
}

func TestMemoryModel(t *testing.T) {
	faulttest.CheckpointModel(t, func(*testing.T) checkpoint.Store { return new(checkpoint.Memory) })
	faulttest.CheckpointSweepModel(t, func(_ *testing.T, ttl time.Duration) checkpoint.Store {
		return &checkpoint.Memory{TTL: ttl}
	})
}

func TestMemoryHistories(t *testing.T) {
	newStore := func(*testing.T) checkpoint.Store { return new(checkpoint.Memory) }
	faulttest.CheckpointHistories(t, newStore, faulttest.Histories())
	faulttest.RenewUnderLoad(t, newStore, 500)
}

func BenchmarkMemory(b *testing.B) { checkpointtest.Bench(b, new(checkpoint.Memory)) }

// The lock lets every caller in, and the histories stay right: safety needs no lock.
func TestHistoriesBehindEverybody(t *testing.T) {
	faulttest.HistoriesBehindEverybody(t, func(*testing.T) checkpoint.Store { return new(checkpoint.Memory) })
}
