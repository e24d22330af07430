package testenv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Cluster is a Redis Cluster of three masters that belongs to one test.
type Cluster struct {
	Addrs []string
	// Nodes are the servers, in the order of Addrs. A test can kill and stop each of them.
	Nodes []*Server
}

const slots = 16384

// StartRedisCluster starts a Redis Cluster for this test and returns when the cluster is Ready. opts are of each node;
// nil means the defaults. If a node does not answer for 30 s, the other nodes take it for dead and refuse all commands.
// A busy machine answers sooner.
func StartRedisCluster(tb testing.TB, opts *Options) *Cluster {
	tb.Helper()
	c := new(Cluster)
	for range 3 {
		node := startServer(tb, redisEngine{cluster: true}, opts)
		c.Nodes = append(c.Nodes, node)
		c.Addrs = append(c.Addrs, node.d.addr())
	}
	for i := range c.Nodes {
		must(tb, c.join(tb.Context(), i))
	}
	c.Ready()
	return c
}

// join gives node i its share of the slots and introduces it to the first.
func (c *Cluster) join(ctx context.Context, i int) error {
	client := redis.NewClient(&redis.Options{Addr: c.Addrs[i]})
	defer client.Close()
	n := len(c.Nodes)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		p.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1)
		if i > 0 {
			p.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(c.Nodes[0].d.port))
		}
		return nil
	})
	return err
}

// Ready returns when every node answers, knows the others, and says that the cluster is ok and serves all slots.
func (c *Cluster) Ready() {
	for _, node := range c.Nodes {
		node.tb.Helper()
		must(node.tb, await(time.Minute, node.d.proc.exited, func(ctx context.Context) error {
			return c.check(ctx, node.d.addr())
		}))
	}
}

func (c *Cluster) check(ctx context.Context, addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{
		"cluster_state:ok",
		fmt.Sprintf("cluster_slots_ok:%d", slots),
		fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes)),
	} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("node %s: no %s in\n%s", addr, want, info)
		}
	}
	return nil
}

// MoveSlot moves a slot to the node with this index, as redis-cli --cluster reshard does. It calls midway three times:
// before a key has moved, after the first key, and when all keys have moved but the nodes do not know yet.
func (c *Cluster) MoveSlot(ctx context.Context, slot, to int, midway func()) error {
	m := mover{slot: slot}
	defer m.close()
	if err := m.open(ctx, c, to); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if n < 2 {
			midway()
		}
		left, err := m.step(ctx, c.Nodes[to].d.port)
		if err != nil {
			return err
		}
		if !left {
			midway()
			return m.end(ctx)
		}
	}
}

// Owns reports whether the node with this index has the slot.
func (c *Cluster) Owns(ctx context.Context, slot, node int) bool {
	client := redis.NewClient(&redis.Options{Addr: c.Addrs[node]})
	defer client.Close()
	return owns(ctx, client, slot)
}

func owns(ctx context.Context, node *redis.Client, slot int) bool {
	id, _ := node.Do(ctx, "CLUSTER", "MYID").Text()
	shards, _ := node.ClusterShards(ctx).Result()
	return slices.ContainsFunc(shards, func(s redis.ClusterShard) bool {
		return s.Nodes[0].ID == id && slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool {
			return int(r.Start) <= slot && slot <= int(r.End)
		})
	})
}

// A mover moves one slot. It has a client for every node.
type mover struct {
	slot     int
	nodes    []*redis.Client
	ids      []string
	from, to int
}

func (m *mover) close() {
	for _, n := range m.nodes {
		n.Close()
	}
}

// open reads the id of each node, and which node has the slot.
func (m *mover) open(ctx context.Context, c *Cluster, to int) error {
	m.to, m.from = to, -1
	for i, addr := range c.Addrs {
		node := redis.NewClient(&redis.Options{Addr: addr})
		m.nodes = append(m.nodes, node)
		id, err := node.Do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			return err
		}
		m.ids = append(m.ids, id)
		if owns(ctx, node, m.slot) {
			m.from = i
		}
	}
	if m.from < 0 || m.from == to {
		return fmt.Errorf("slot %d is on node %d and is to go to %d", m.slot, m.from, to)
	}
	return nil
}

func (m *mover) begin(ctx context.Context) error {
	if err := m.nodes[m.to].Do(ctx, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.ids[m.from]).Err(); err != nil {
		return err
	}
	return m.nodes[m.from].Do(ctx, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.ids[m.to]).Err()
}

// step moves one key. It reports whether there was a key to move.
func (m *mover) step(ctx context.Context, port int) (bool, error) {
	from := m.nodes[m.from]
	keys, err := from.ClusterGetKeysInSlot(ctx, m.slot, 1).Result()
	if err != nil || len(keys) == 0 {
		return false, err
	}
	return true, from.Migrate(ctx, "127.0.0.1", fmt.Sprint(port), keys[0], 0, 5*time.Second).Err()
}

func (m *mover) end(ctx context.Context) error {
	order := []int{m.to, m.from}
	for i := range m.nodes {
		if i != m.to && i != m.from {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if err := m.nodes[i].Do(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[m.to]).Err(); err != nil {
			return err
		}
	}
	return nil
}
