package checkpoint_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
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

func TestMemoryRaise(t *testing.T) {
	checkpointtest.RunRaiser(t, func(*testing.T) checkpointtest.RaisingStore { return new(checkpoint.Memory) })
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

// own makes the caller the owner of a session, and the test fails if it does not.
func own(t *testing.T, m *checkpoint.Memory, k checkpoint.Key, nonce string) checkpoint.Lease {
	t.Helper()
	c, err := m.Claim(t.Context(), k, checkpoint.ClaimRequest{Nonce: nonce, Owner: "a", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c.Lease
}

// Each claim has an epoch of its own, also while the clock stands still.
func TestMemoryEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		k := checkpoint.Key{Orchestrator: "bot", Session: "a"}
		first := own(t, m, k, "1")
		if err := m.Mark(t.Context(), first, checkpoint.Marks{Release: true}); err != nil {
			t.Fatal(err)
		}
		second := own(t, m, k, "2")
		other := own(t, m, checkpoint.Key{Orchestrator: "bot", Session: "b"}, "3")
		if first.Fence.Epoch >= second.Fence.Epoch || second.Fence.Epoch >= other.Fence.Epoch {
			t.Errorf("epochs %d, %d, %d", first.Fence.Epoch, second.Fence.Epoch, other.Fence.Epoch)
		}
	})
}

// A session is kept from its last write on, also if its lease ended before that.
func TestMemoryLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &checkpoint.Memory{TTL: time.Hour}
		l := own(t, m, checkpoint.Key{Orchestrator: "bot", Session: "a"}, "1")
		time.Sleep(time.Hour)
		cp := checkpoint.Checkpoint{RunID: "run", State: []byte(`{}`)}
		if err := m.Append(t.Context(), l, cp, checkpoint.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 1} {
			time.Sleep(31 * time.Minute)
			if n, err := m.Sweep(t.Context(), 0); n != want || err != nil {
				t.Errorf("%d retired, want %d: %v", n, want, err)
			}
		}
	})
}
