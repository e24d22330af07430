package snapshot_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Functions keep the contract in TestFunctions and TestCitus.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, d := range databases {
		if name != "functions" {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				snapshottest.Run(t, d.newStore)
			})
		}
	}
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The store
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t, pgtest.Isolation(level))
			snapshottest.Run(t, numbered(p, "s", pgsnapshot.Options{}))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.Behind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.Run(t, numbered(pgtest.EmptyPool(t, configure), "s", pgsnapshot.Options{}))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { snapshottest.Run(t, numbered(p, "s", pgsnapshot.Options{})) })
}

// A store that calls functions keeps every promise of a store that sends statements. TestCitus runs the suites with the
// defaults.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "f"
			p := pgtest.EmptyPool(t, func(c *pgxpool.Config) {
				configure(c)
				// The functions name the schema if the prefix does.
				if params := c.ConnConfig.RuntimeParams; c.MaxConns == 1 {
					prefix, params["search_path"] = params["search_path"]+".My_", "pg_catalog"
				}
			})
			snapshottest.Run(t, numbered(p, prefix, pgsnapshot.Options{Functions: true}))
		})
	}
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, func(t *testing.T) snapshot.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return liteOn(t, db, sqlitesnapshot.Options{Prefix: "_My1"})
	})
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	client, newStore := redistest.Cluster(t), numberedRedis()
	snapshottest.Run(t, func(*testing.T) snapshot.Store { return newStore(client) })
}

func TestSweep(t *testing.T) {
	each(t, sweeps, func(t *testing.T, d database) {
		snapshottest.RunSweeper(t, func(t *testing.T, remember time.Duration) snapshottest.SweepingStore {
			return d.open(t, remember).(snapshottest.SweepingStore)
		})
	})
}

func TestRaise(t *testing.T) {
	each(t, all, func(t *testing.T, d database) {
		snapshottest.RunRaiser(t, func(t *testing.T) snapshottest.RaisingStore { return d.open(t, 0) })
	})
}

func TestRaiseCluster(t *testing.T) {
	t.Parallel()
	client, newStore := redistest.Cluster(t), numberedRedis()
	snapshottest.RunRaiser(t, func(*testing.T) snapshottest.RaisingStore { return newStore(client) })
}

func TestModel(t *testing.T) {
	each(t, all, func(t *testing.T, d database) { faulttest.SnapshotModel(t, d.newStore) })
}

func TestRacingBegins(t *testing.T) {
	each(t, all, func(t *testing.T, d database) { faulttest.RacingBegins(t, d.newStore, 10_000) })
}

func TestJoin(t *testing.T) {
	each(t, joins, func(t *testing.T, d database) {
		for name, open := range d.joins {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				snapshottest.RunJoiner(t, open(t))
			})
		}
	})
}

// A transaction is in one database, and a store on another pool may be in another one.
func TestJoinElsewhere(t *testing.T) {
	each(t, joins, func(t *testing.T, d database) {
		runs, strange := d.strange(t)
		for name, turns := range strange {
			if runs.Join(turns) != nil {
				t.Errorf("%s is joined", name)
			}
		}
	})
}

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	each(t, func(d database) bool { return d.unreachable != nil }, func(t *testing.T, d database) {
		for name, s := range d.unreachable(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				snapshottest.RunUnreachable(t, s)
			})
		}
	})
}

// A divided store loses a node of its cluster.
type divided struct {
	*redissnapshot.Store
	*redistest.Divided
}

// No listing waits for each page of a node that is away, and none ends there.
func TestNodeAway(t *testing.T) {
	for name, dead := range map[string]bool{"dead": redistest.Dead, "stopped": redistest.Stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, newStore := redistest.DividedCluster(t, dead, nil), numberedRedis()
			snapshottest.RunDivided(t, func(*testing.T) snapshottest.DividedStore {
				return divided{newStore(cluster.Client), cluster}
			})
		})
	}
}

func BenchmarkStore(b *testing.B) {
	for name, d := range databases {
		b.Run(name, func(b *testing.B) { snapshottest.Bench(b, d.open(b, 0)) })
	}
}
