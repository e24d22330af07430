package redischeckpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// A divided store loses a node of its cluster.
type divided struct {
	*redischeckpoint.Store
	*redistest.Divided
}

// No call about a session on another node fails, or waits for the node that is away. A client that does not honour the
// end of ctx waits for its own timeouts, of three seconds each.
func TestNodeAway(t *testing.T) {
	for name, c := range map[string]struct {
		dead   bool
		client redis.ClusterOptions
	}{
		"dead":    {redistest.Dead, redis.ClusterOptions{}},
		"stopped": {redistest.Stopped, redis.ClusterOptions{}},
		"stopped, client honours deadlines": {
			redistest.Stopped, redis.ClusterOptions{ContextTimeoutEnabled: true, ReadTimeout: time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.DividedCluster(t, c.dead, &c.client)
			n := 0
			checkpointtest.RunDivided(t, func(*testing.T) checkpointtest.DividedStore {
				n++
				o := redischeckpoint.Options{Prefix: fmt.Sprintf("c%d:", n)}
				return divided{redischeckpoint.New(cluster.Client, &o), cluster}
			})
			checkpointtest.RunDividedSweeper(t,
				func(_ *testing.T, ttl time.Duration) checkpointtest.DividedSweepingStore {
					o := redischeckpoint.Options{Prefix: "swept:", TTL: ttl}
					return divided{redischeckpoint.New(cluster.Client, &o), cluster}
				})
		})
	}
}
