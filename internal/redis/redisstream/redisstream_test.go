package redisstream_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, newStore)
}

// Two stores on one server are as two processes.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) {
		client, prefix := testenv.Redis(t)
		second := redistest.Another(t, client)
		o := &redisstream.Options{Prefix: prefix}
		return redisstream.New(client, o), redisstream.New(second, o)
	})
}

// The reader asks another node of the cluster than the one that the writer publishes at.
func TestStoreCluster(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	second := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs})
	defer second.Close()
	n := 0
	streamtest.RunPair(t, func(*testing.T) (a, b stream.Store) {
		n++
		o := &redisstream.Options{Prefix: fmt.Sprintf("c%d:", n)}
		return redisstream.New(client, o), redisstream.New(second, o)
	})
}

// A client of another kind has no subscription. Its readers ask.
func TestStorePolls(t *testing.T) {
	t.Parallel()
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) {
		client, prefix := testenv.Redis(t)
		o := &redisstream.Options{Prefix: prefix}
		return redisstream.New(client, o), redisstream.New(another{client}, o)
	})
}

type another struct{ redis.UniversalClient }

func newStore(t *testing.T) stream.Store {
	client, prefix := testenv.Redis(t)
	return redisstream.New(client, &redisstream.Options{Prefix: prefix})
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	redistest.Prefixes(t, func(prefix string) { redisstream.New(nil, &redisstream.Options{Prefix: prefix}) })
	if got := redisstream.New(nil, nil).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}
