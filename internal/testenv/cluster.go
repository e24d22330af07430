package testenv

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Cluster is a Redis Cluster of three masters that belongs to one test.
type Cluster struct {
	Addrs []string
	Nodes []*Server // in the order of Addrs, to be killed, stopped and so on
}

const slots = 16384

// StartRedisCluster starts a Redis Cluster for this test and returns when it is Ready.
// A node that does not answer for 5 s is taken for dead by the others, which then
// refuse all commands.
func StartRedisCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := new(Cluster)
	for range 3 {
		node := startServer(tb, redisEngine{cluster: true}, nil)
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

// Ready returns when every node answers, knows the others and says that the
// cluster is ok and serves all slots.
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
