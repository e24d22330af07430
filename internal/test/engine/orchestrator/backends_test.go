package orchestrator_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// backends runs test once for each pair of stores, in an empty world of its own.
func backends(t *testing.T, test func(*testing.T, world)) {
	t.Helper()
	for _, b := range []struct {
		name string
		open func(*testing.T) world
	}{
		{"memory", func(*testing.T) world { return newWorld() }},
		{"sqlite", onSQLite},
		{"postgres", onPostgres},
		{"redis", onRedis},
		{"postgres and redis", func(t *testing.T) world {
			return world{
				Checkpoints: onPostgres(t).Checkpoints,
				Snapshots:   onRedis(t).Snapshots,
			}
		}},
	} {
		t.Run(b.name, func(t *testing.T) { test(t, b.open(t)) })
	}
}

func onSQLite(t *testing.T) world {
	db, err := sql.Open("sqlite", inMemory(t, testenv.SQLite(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	checkpoints, snapshots := sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil)
	for _, schema := range []string{checkpoints.Schema(), snapshots.Schema()} {
		if _, err := db.ExecContext(t.Context(), schema); err != nil {
			t.Fatal(err)
		}
	}
	return worldOf(checkpoints, snapshots)
}

func onPostgres(t *testing.T) world {
	pool := pgtest.PoolWith(t, pgcheckpoint.New(nil, nil).Schema()+pgsnapshot.New(nil, nil).Schema())
	return worldOf(pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil))
}

func onRedis(t *testing.T) world {
	client, prefix := testenv.Redis(t)
	return world{
		Checkpoints: redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix}),
		Snapshots:   redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}),
	}
}

// inMemory moves a database to a file system in memory, if there is one, because syncing costs nothing there. No
// machine crashes in these tests.
func inMemory(t *testing.T, dsn string) string {
	dir, err := os.MkdirTemp("/dev/shm", "holdfast-")
	if err != nil {
		return dsn
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	_, query, _ := strings.Cut(dsn, "?")
	return "file:" + dir + "/test.db?" + query
}
