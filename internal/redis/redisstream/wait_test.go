package redisstream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

// subscribed waits until n connections have a subscription.
func subscribed(t *testing.T, admin *redis.Client, n int) {
	t.Helper()
	for start := time.Now(); ; {
		all, err := admin.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		check(t, err)
		lines := 0
		for _, c := range all {
			if c == '\n' {
				lines++
			}
		}
		if lines == n {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%d connections have a subscription, want %d", lines, n)
		}
	}
}

// A thousand readers that wait cost one connection and a few commands. When they have left, it is closed.
func TestCrowd(t *testing.T) {
	t.Parallel()
	server, admin := redistest.Server(t, redis.Options{})
	_ = server
	writer, other := redistest.Another(t, admin), redistest.Another(t, admin)
	commands := func() int { return redistest.Stats(t, admin)["evalsha"] }
	tailtest.Crowd(t, redisstream.New(writer, nil), redisstream.New(other, nil), 1000, func() {
		subscribed(t, admin, 1)
		const quiet = time.Second
		time.Sleep(quiet) // until the readers that came last have looked once more
		before := commands()
		time.Sleep(2 * quiet)
		if n := commands() - before; n > 1000 { // one question for each, at most
			t.Errorf("%d commands in %v while 1000 readers wait", n, 2*quiet)
		}
		if n := other.PoolStats().TotalConns; n > 20 {
			t.Errorf("the pool has %d connections", n)
		}
	})
	subscribed(t, admin, 0)
}

// The subscription is killed, and all connections are. The server restarts, with what it had.
func TestCut(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.Options{Settings: map[string]string{
		"appendonly": "yes", "appendfsync": "always",
	}})
	open := func() *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: server.URL[len("redis://") : len(server.URL)-len("/0")]})
		t.Cleanup(func() { client.Close() })
		return client
	}
	admin, writer := open(), redisstream.New(open(), nil)
	reader := redisstream.New(open(), nil)
	for name, cut := range map[string]func(){
		"subscription": func() {
			subscribed(t, admin, 1)
			check(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		},
		"all": func() {
			check(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
			check(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		},
		"restart": func() { server.Kill(); server.Restart() },
	} {
		t.Run(name, func(t *testing.T) { tailtest.Cut(t, writer, reader, cut) })
		check(t, writer.Delete(t.Context(), stream.Key{Orchestrator: "cut", Session: "s"}))
	}
}

// A chunk reaches a reader in another process soon after it was appended.
func TestDelay(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	o := &redisstream.Options{Prefix: prefix}
	writer := redisstream.New(client, o)
	for name, other := range map[string]redis.UniversalClient{
		"subscribed": redistest.Another(t, client), "asking": another{redistest.Another(t, client)},
	} {
		quarter, longest := tailtest.Delay(t, writer, redisstream.New(other, o), 20)
		t.Logf("%s: a quarter of the chunks take %v, all %v at most", name, quarter, longest)
		// The engine collects events for 50 ms before.
		if limit := 50 * time.Millisecond; name == "subscribed" && quarter > limit {
			t.Errorf("%s: a chunk takes %v", name, quarter)
		}
		check(t, writer.Delete(t.Context(), stream.Key{Orchestrator: "delay", Session: "s"}))
	}
}

// No call fails while slots move, and readers get each chunk.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	other := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs})
	defer other.Close()
	m := redistest.Moves{
		Tags: []string{"{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error {
			o := &redisstream.Options{Prefix: fmt.Sprintf("p%d:", n), Keep: 4}
			return live(ctx, redisstream.New(client, o), redisstream.New(other, o), key(fmt.Sprint("s", w)))
		},
	}
	m.Run(t, nodes, client)
}

// live shows one turn in a process, and reads it in another.
func live(ctx context.Context, writer, reader stream.Store, k stream.Key) error {
	if _, err := writer.Append(ctx, k, "r", 1, stream.Active, docs(1)); err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		n, err := readError(ctx, reader, k, 0)
		if err == nil && n != 10 {
			err = fmt.Errorf("%d chunks, want 10", n)
		}
		if errors.Is(err, stream.ErrGone) {
			err = nil // it was slow
		}
		read <- err
	}()
	for n := range 3 {
		status := stream.Active
		if n == 2 {
			status = stream.Ended
		}
		if _, err := writer.Append(ctx, k, "r", 1, status, docs(3)); err != nil {
			return err
		}
	}
	return errors.Join(<-read, writer.Delete(ctx, k))
}
