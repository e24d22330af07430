// Package redistest has the servers and the misfortunes that the stores on Redis are tested with.
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

	"github.com/holdfast-go/holdfast/internal/testenv"
)

// Cluster returns a client of a cluster that is the test's own.
func Cluster(t *testing.T) *redis.ClusterClient {
	_, client := Nodes(t)
	return client
}

// Nodes is Cluster for tests that meddle with its nodes.
func Nodes(t *testing.T) (*testenv.Cluster, *redis.ClusterClient) {
	nodes := testenv.StartRedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs})
	t.Cleanup(func() { client.Close() })
	return nodes, client
}

// Server returns a Redis that is the test's own, and a client of it.
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

// Stats returns how often each command was called, also from scripts, and the bytes that the server got and sent, since
// client.ConfigResetStat.
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

// LoseNext makes the nth answer from now on the one that is lost.
func (n *Lossy) LoseNext(nth int64) { n.left.Store(nth) }

// Lost reports whether an answer was lost since.
func (n *Lossy) Lost() bool { return n.left.Load() <= 0 }

// Dial is a redis.Options.Dialer.
func (n *Lossy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &lossyConn{conn, n}, err
}

type lossyConn struct {
	net.Conn
	network *Lossy
}

func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.network.left.Add(-1) == 0 {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

// An Echo is a hook that repeats one request after a number of others: a copy that was held up on its way.
type Echo struct {
	Nth, Late int           // which, and after how many
	Client    *redis.Client // through which the copy goes
	Spare     *atomic.Bool  // while it is set, no copy is taken; nil: never
	N         int           // requests so far
	Copy      []any
}

var _ redis.Hook = (*Echo)(nil)

func (e *Echo) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e *Echo) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		e.pass(ctx, cmd)
		return err
	}
}

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

func (f Forgetful) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f Forgetful) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f.Client.ScriptFlush(ctx)
		return next(ctx, cmd)
	}
}

func (f Forgetful) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		f.Client.ScriptFlush(ctx)
		return next(ctx, cmds)
	}
}

// LoseSlot makes no node serve the slot of key.
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

// Digest returns what differs if the server holds anything else.
func Digest(t *testing.T, client *redis.Client) string {
	t.Helper()
	digest, err := client.Do(t.Context(), "DEBUG", "DIGEST").Text()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
