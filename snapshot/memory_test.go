package snapshot_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestMemory(t *testing.T) {
	snapshottest.Run(t, func(*testing.T) snapshot.Store { return new(snapshot.Memory) })
}

func TestMemorySweep(t *testing.T) {
	snapshottest.RunSweeper(t, func(_ *testing.T, remember time.Duration) snapshottest.SweepingStore {
		return &snapshot.Memory{Remember: remember}
	})
}

func TestMemoryRaise(t *testing.T) {
	snapshottest.RunRaiser(t, func(*testing.T) snapshottest.RaisingStore { return new(snapshot.Memory) })
}

func BenchmarkMemory(b *testing.B) { snapshottest.Bench(b, new(snapshot.Memory)) }

func TestMemoryModel(t *testing.T) {
	newStore := func(*testing.T) snapshot.Store { return new(snapshot.Memory) }
	faulttest.SnapshotModel(t, newStore)
	faulttest.RacingBegins(t, newStore, 10_000)
}
