package inbox_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/test/boxtest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestStore(t *testing.T) { each(t, inboxtest.Run) }

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) inbox.Store) {
		faulttest.InboxModel(t, open)
		faulttest.InboxHistories(t, open, faulttest.Histories())
	})
}

// On a cluster the index may be on another node than the session.
func TestRedisModelCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	open := func(*testing.T) inbox.Store { return onRedis.New(client, "") }
	faulttest.InboxHistories(t, open, faulttest.Histories())
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(t *testing.T) inbox.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onSQLite(t, db, "_My1")
	})
}

func TestIsolation(t *testing.T) { onPostgres.TestIsolation(t) }

func TestStoreBehind(t *testing.T) { onPostgres.TestBehind(t) }

func TestStorePgBouncer(t *testing.T) { onPostgres.TestPgBouncer(t) }

func TestStoreQualified(t *testing.T) { onPostgres.TestQualified(t) }

func TestGrantsSuffice(t *testing.T) { onPostgres.TestGrantsSuffice(t) }

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, onRedis.Numbered(redistest.Cluster(t)))
}

func TestACLSuffices(t *testing.T) {
	t.Parallel()
	onRedis.TestACLSuffices(t)
}

func TestPrefix(t *testing.T) {
	t.Run("postgres", onPostgres.TestPrefix)
	t.Run("redis", onRedis.TestPrefix)
}

// shared are stores that processes share, by database. They return where another process finds the store.
var shared = map[string]func(t *testing.T) (s inbox.Store, where string){
	"postgres": func(t *testing.T) (inbox.Store, string) {
		url := testenv.PostgresURL(t)
		return onPostgres.New(pgtest.PoolOn(t, url), ""), url
	},
	"redis": func(t *testing.T) (inbox.Store, string) {
		client, prefix := testenv.Redis(t)
		return onRedis.New(client, prefix), place(client, prefix)
	},
}

func processes(t *testing.T, test func(t *testing.T, s inbox.Store, where string)) {
	for name, open := range shared {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, where := open(t)
			test(t, s, where)
		})
	}
}

// Several processes answer the same questions at once.
func TestProcesses(t *testing.T) { processes(t, boxtest.TestProcesses) }

// A process is killed while it posts.
func TestKilled(t *testing.T) { processes(t, boxtest.TestKilled) }
