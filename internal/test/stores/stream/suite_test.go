package stream_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

// numbered returns a maker of stores at one place that share nothing.
func (p place) numbered(o options) func(t *testing.T) stream.Store {
	n := 0
	return func(t *testing.T) stream.Store {
		n++
		o.prefix = fmt.Sprintf("s%d_", n)
		return p.open(t, o)
	}
}

func TestStore(t *testing.T) {
	each(t, all, func(t *testing.T, p place) { streamtest.Run(t, p.numbered(options{})) })
}

// Two stores at one place are as two processes.
func TestTwoStores(t *testing.T) {
	each(t, shared, func(t *testing.T, p place) {
		n := 0
		streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) {
			n++
			o := options{prefix: fmt.Sprintf("s%d_", n)}
			return p.open(t, o), p.another(t, o)
		})
	})
}

// Random histories follow the model.
func TestModel(t *testing.T) {
	each(t, all, func(t *testing.T, p place) { faulttest.StreamModel(t, 8, p.numbered(options{keep: 8})) })
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, func(t *testing.T) stream.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onSQLite(t, db, options{prefix: "_My1"})
	})
}

func TestIsolation(t *testing.T) { onPostgres.TestIsolation(t) }

func TestStoreBehind(t *testing.T) { onPostgres.TestBehind(t) }

// Behind PgBouncer no connection listens.
func TestStorePgBouncer(t *testing.T) { onPostgres.TestPgBouncer(t) }

func TestStoreQualified(t *testing.T) { onPostgres.TestQualified(t) }

func TestGrantsSuffice(t *testing.T) { onPostgres.TestGrantsSuffice(t) }

func TestPrefix(t *testing.T) {
	t.Run("postgres", onPostgres.TestPrefix)
	t.Run("redis", onRedis.TestPrefix)
}

// The reader asks another node of the cluster than the one that the writer publishes at.
func TestStoreCluster(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	second := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs})
	defer second.Close()
	writers, readers := onRedis.Numbered(client), onRedis.Numbered(second)
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) { return writers(t), readers(t) })
}

// A client of another kind has no subscription. Its readers ask.
func TestRedisPolls(t *testing.T) {
	t.Parallel()
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) {
		client, prefix := testenv.Redis(t)
		return onRedis.New(client, prefix), onRedis.New(another{client}, prefix)
	})
}

type another struct{ redis.UniversalClient }

// A user with the documented rules passes the suite, and has a subscription.
func TestACLSuffices(t *testing.T) {
	t.Parallel()
	admin, user := onRedis.TestACLSuffices(t)
	s := onRedis.New(user, "")
	add(t, s, key("a"), 1, stream.Active, 1)
	r := tailtest.Read(t, s, key("a"), 0)
	subscribed(t, admin, 1)
	add(t, s, key("a"), 1, stream.Ended, 1)
	check(t, r.End())
}
