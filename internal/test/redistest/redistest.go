// Package redistest has the servers and the faults for the tests of the stores on Redis.
package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Cluster returns a client of a cluster of the test's own.
func Cluster(t *testing.T) *redis.ClusterClient {
	_, client := Nodes(t)
	return client
}

// Nodes is like Cluster, for tests that kill or change nodes.
func Nodes(t *testing.T) (*testenv.Cluster, *redis.ClusterClient) {
	nodes := testenv.StartRedisCluster(t, nil)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs})
	t.Cleanup(func() { client.Close() })
	return nodes, client
}

// Server returns a Redis of the test's own, and a client of it.
func Server(t *testing.T, o redis.Options) (*testenv.Server, *redis.Client) {
	s := testenv.StartRedis(t, &testenv.Options{Settings: map[string]string{"enable-debug-command": "yes"}})
	where, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.Addr = where.Addr
	client := redis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	return s, client
}

// Stats returns how often each command was called, also from scripts. It also returns the bytes that the server
// received and sent. Both count since client.ConfigResetStat.
func Stats(t *testing.T, client *redis.Client) map[string]int {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats", "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(name, "cmdstat_") && name != "total_net_output_bytes" && name != "total_net_input_bytes" {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(strings.TrimPrefix(rest, "calls="), "%d", &n); err != nil {
			t.Fatal(err)
		}
		counts[name] = n
	}
	return counts
}

// A Lossy network loses the answer to one request.
type Lossy struct{ left atomic.Int64 }

// LoseNext makes the network lose the nth answer from now on.
func (n *Lossy) LoseNext(nth int64) { n.left.Store(nth) }

// Lost reports whether the network has lost an answer since LoseNext.
func (n *Lossy) Lost() bool { return n.left.Load() <= 0 }

// Dial connects. It fits redis.Options.Dialer.
func (n *Lossy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &lossyConn{conn, n}, err
}

type lossyConn struct {
	net.Conn
	network *Lossy
}

// Read reads from the server, and fails once where Lossy loses an answer.
func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.network.left.Add(-1) == 0 {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

// An Echo is a hook that repeats one request after some others, as if a copy had been delayed on its way.
type Echo struct {
	// Nth is the request to repeat. Late is how many requests later the copy comes.
	Nth, Late int
	// Client sends the copy.
	Client *redis.Client
	// Spare, while set, prevents that a copy is taken. nil means never.
	Spare *atomic.Bool
	// N is the number of requests so far.
	N    int
	Copy []any
}

var _ redis.Hook = (*Echo)(nil)

// DialHook changes nothing.
func (e *Echo) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command, and may repeat an earlier one.
func (e *Echo) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		e.pass(ctx, cmd)
		return err
	}
}

// ProcessPipelineHook counts each command of a pipeline.
func (e *Echo) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			e.pass(ctx, cmd)
		}
		return err
	}
}

func (e *Echo) pass(ctx context.Context, cmd redis.Cmder) {
	e.N++
	if e.N == e.Nth && (e.Spare == nil || !e.Spare.Load()) {
		e.Copy = slices.Clone(cmd.Args())
	}
	if e.N == e.Nth+e.Late && e.Copy != nil {
		e.Client.Do(ctx, e.Copy...)
	}
}

// A Forgetful hook makes Redis lose its scripts before every request.
type Forgetful struct{ Client *redis.Client }

var _ redis.Hook = Forgetful{}

// DialHook changes nothing.
func (f Forgetful) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook flushes the scripts before a command.
func (f Forgetful) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f.Client.ScriptFlush(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook flushes the scripts before a pipeline.
func (f Forgetful) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		f.Client.ScriptFlush(ctx)
		return next(ctx, cmds)
	}
}

// LoseSlot removes the slot of key from every node.
func LoseSlot(t *testing.T, client *redis.ClusterClient, key string) {
	t.Helper()
	slot, err := client.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	err = client.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		return c.ClusterDelSlots(ctx, int(slot)).Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Fill makes the server say that its memory is full.
func Fill(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
}

// Digest returns a text that changes if any data of the server changes.
func Digest(t *testing.T, client *redis.Client) string {
	t.Helper()
	digest, err := client.Do(t.Context(), "DEBUG", "DIGEST").Text()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
