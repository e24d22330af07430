package checkpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Poolers and configurations that users have.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.Behind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkpointtest.Run(t, numbered(pgtest.EmptyPool(t, configure), "s", pgcheckpoint.Options{}))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the one before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { checkpointtest.Run(t, numbered(p, "s", pgcheckpoint.Options{})) })
}

// A role or a database may ask by default for transactions that see no later change of others. The store keeps its
// promises.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t, pgtest.Isolation(level))
			checkpointtest.Run(t, numbered(p, "s", pgcheckpoint.Options{}))
		})
	}
}

func TestStoreQualified(t *testing.T) {
	t.Parallel()
	schema := pgtest.Value[string](t, testenv.Postgres(t), "SELECT current_schema()")
	elsewhere := pgtest.EmptyPool(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "pg_catalog"
	})
	checkpointtest.Run(t, numbered(elsewhere, schema+".My_", pgcheckpoint.Options{}))
}

// numbered returns a function that makes stores on one pool, each with tables of its own.
func numbered(p *pgxpool.Pool, prefix string, o pgcheckpoint.Options) func(*testing.T) checkpoint.Store {
	n := 0
	return func(t *testing.T) checkpoint.Store {
		n++
		o.Prefix = fmt.Sprintf("%s%d_", prefix, n)
		return pgOn(t, p, o)
	}
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
				// If the prefix names the schema, the functions name it too.
				if params := c.ConnConfig.RuntimeParams; c.MaxConns == 1 {
					prefix, params["search_path"] = params["search_path"]+".My_", "pg_catalog"
				}
			})
			checkpointtest.Run(t, numbered(p, prefix, withFunctions))
		})
	}
}

// A mixed store acts as two processes: one calls functions, and the other sends statements.
type mixed struct {
	checkpoint.Store
	other checkpoint.Store
}

func (m mixed) either() checkpoint.Store { return []checkpoint.Store{m.Store, m.other}[rand.IntN(2)] }

func (m mixed) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return m.either().Claim(ctx, k, r)
}

func (m mixed) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return m.either().Append(ctx, l, cp, o)
}

func (m mixed) Mark(ctx context.Context, l checkpoint.Lease, marks checkpoint.Marks) error {
	return m.either().Mark(ctx, l, marks)
}

func (m mixed) Renew(ctx context.Context, ttl time.Duration, l []checkpoint.Lease) ([]checkpoint.Lease, error) {
	return m.either().Renew(ctx, ttl, l)
}

func (m mixed) Delete(ctx context.Context, l checkpoint.Lease) error {
	return m.either().Delete(ctx, l)
}

// Processes with and without functions may serve the same sessions, as while the option is rolled out.
func TestFunctionsBesideStatements(t *testing.T) {
	t.Parallel()
	faulttest.CheckpointHistories(t, func(t *testing.T) checkpoint.Store {
		s := newPG(t, withFunctions)
		return mixed{s, pgcheckpoint.New(s.pool, nil)}
	}, faulttest.Histories())
}

// partitionSQL is the SQL of docs/operations.md.
const partitionSQL = `
	CREATE TABLE {turns}_parted (LIKE {turns} INCLUDING DEFAULTS) PARTITION BY HASH (orchestrator, session);
	DROP TABLE {turns};
	ALTER TABLE {turns}_parted RENAME TO {turns};
	ALTER TABLE {turns} ADD PRIMARY KEY (orchestrator, session, turn);`

const partition = `
	CREATE TABLE {turns}_%[1]d PARTITION OF {turns} FOR VALUES WITH (MODULUS %[2]d, REMAINDER %[1]d)
	WITH (toast_tuple_target = 4080);`

// Turns in hash partitions that were made by hand are as good as others.
func TestPartitions(t *testing.T) {
	t.Parallel()
	newStore := numbered(testenv.Postgres(t), "p", pgcheckpoint.Options{})
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		s := newStore(t).(pg)
		sql := partitionSQL
		for i := range 4 {
			sql += fmt.Sprintf(partition, i, 4)
		}
		table := strings.Trim(s.Fill("{turns}"), `"`)
		pgtest.Exec(t, s.pool, strings.ReplaceAll(sql, "{turns}", table)+s.Schema())
		return s
	})
}

// A store on SQLite on one connection, with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return liteOn(t, db, sqlitecheckpoint.Options{Prefix: "_My1"})
	})
}

// A TTL changes nothing in Redis until it has passed.
func TestStoreTTL(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return databases["redis"].open(t, time.Hour, 0) })
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	newStore := numberedOn(redistest.Cluster(t), redischeckpoint.Options{})
	checkpointtest.Run(t, func(*testing.T) checkpoint.Store { return newStore() })
}

// numberedOn returns a function that makes stores on one Redis.
func numberedOn(client redis.UniversalClient, o redischeckpoint.Options) func() rd {
	n := 0
	return func() rd {
		n++
		return redisOn(client, fmt.Sprintf("c%d:", n), o)
	}
}
