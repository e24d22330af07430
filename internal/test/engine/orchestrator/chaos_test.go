package orchestrator_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/engine/chaostest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A few processes make random calls over a network that loses, doubles, delays and reorders messages. The answers to
// callers stay true.
func TestChaos(t *testing.T) {
	chaostest.Search(t, func() chaostest.Stores {
		return chaostest.Stores{Checkpoints: new(checkpoint.Memory), Snapshots: new(snapshot.Memory)}
	})
}

// The same on real stores. It takes real time, so it runs only in a soak.
func TestChaosOnServers(t *testing.T) {
	if !soak() {
		t.Skip("only with HOLDFAST_SOAK=1")
	}
	backends(t, func(t *testing.T, w world) {
		t.Parallel()
		chaostest.SearchOnServers(t, chaostest.Stores{Checkpoints: w.Checkpoints, Snapshots: w.Snapshots})
	})
}
