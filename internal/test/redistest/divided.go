package redistest

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Divided is a Redis Cluster of which a test takes one node away. The other nodes go on serving their slots.
type Divided struct {
	Client *redis.ClusterClient

	nodes *testenv.Cluster
	// dead says that the node is killed. Otherwise it is stopped: it accepts connections, and does not answer.
	dead bool
}

// Nodes that a test takes away are Dead or Stopped.
const (
	Dead    = true
	Stopped = false
)

// DividedCluster starts a cluster whose data survives a kill. A node that was away for the timeout of nodes would be
// taken back a minute late. o may be nil.
func DividedCluster(t *testing.T, dead bool, o *redis.ClusterOptions) *Divided {
	nodes := testenv.StartRedisCluster(t, &testenv.Options{
		Durable: true, Settings: map[string]string{
			"cluster-require-full-coverage": "no",
			"cluster-node-timeout":          "600000",
		},
	})
	if o == nil {
		o = new(redis.ClusterOptions)
	}
	o.Addrs = nodes.Addrs
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { client.Close() })
	return &Divided{client, nodes, dead}
}

// TakeAway takes a node away that has some of the sessions, and not the indexes of the orchestrator. It returns the
// sessions on that node. The names need no escapes.
func (d *Divided) TakeAway(
	ctx context.Context, orchestrator string, sessions []string,
) (away []string, back func(), err error) {
	index, err := d.node(ctx, "{"+orchestrator+"}")
	if err != nil {
		return nil, nil, err
	}
	victim := (index + 1) % len(d.nodes.Nodes)
	for _, id := range sessions {
		n, err := d.node(ctx, "{"+orchestrator+"/"+id+"}")
		if err != nil {
			return nil, nil, err
		}
		if n == victim {
			away = append(away, id)
		}
	}
	node := d.nodes.Nodes[victim]
	if d.dead {
		node.Kill()
		return away, func() { node.Restart(); d.nodes.Ready() }, nil
	}
	node.Stop()
	return away, func() { node.Continue(); d.nodes.Ready() }, nil
}

// node returns which node has the keys with a tag.
func (d *Divided) node(ctx context.Context, tag string) (int, error) {
	master, err := d.Client.MasterForKey(ctx, tag)
	if err != nil {
		return 0, err
	}
	for i, addr := range d.nodes.Addrs {
		if addr == master.Options().Addr {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no node has the address %s", master.Options().Addr)
}
