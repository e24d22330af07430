package redissnapshot_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A divided store loses a node of its cluster.
type divided struct {
	*redissnapshot.Store
	*redistest.Divided
}

// No listing waits for each page of a node that is away, and none ends there.
func TestNodeAway(t *testing.T) {
	for name, dead := range map[string]bool{"dead": redistest.Dead, "stopped": redistest.Stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.DividedCluster(t, dead, nil)
			n := 0
			snapshottest.RunDivided(t, func(*testing.T) snapshottest.DividedStore {
				n++
				o := redissnapshot.Options{Prefix: fmt.Sprintf("c%d:", n)}
				return divided{redissnapshot.New(cluster.Client, &o), cluster}
			})
		})
	}
}
