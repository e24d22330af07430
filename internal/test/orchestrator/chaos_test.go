package orchestrator_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/chaostest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Random calls of a few processes, over a network that loses, doubles, delays and reorders whatever it can: what callers were
// told stays true.
func TestChaos(t *testing.T) {
	chaostest.Search(t, func() chaostest.Stores {
		return chaostest.Stores{Checkpoints: new(checkpoint.Memory), Snapshots: new(snapshot.Memory)}
	})
}

// The same on real stores. It takes real time, and therefore a soak.
func TestChaosOnServers(t *testing.T) {
	if os.Getenv("HOLDFAST_SOAK") != "1" {
		t.Skip("only with HOLDFAST_SOAK=1")
	}
	backends(t, func(t *testing.T, w world) {
		t.Parallel()
		chaostest.SearchOnServers(t, chaostest.Stores{Checkpoints: w.checkpoints, Snapshots: w.snapshots})
	})
}
