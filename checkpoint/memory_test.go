package checkpoint_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
)

func TestMemoryRaise(t *testing.T) {
	checkpointtest.RunRaiser(t, func(*testing.T) checkpointtest.RaisingStore { return new(checkpoint.Memory) })
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
