// Package snapshot_test runs the cases of the contract of package snapshot over all databases. What one database alone
// has is in a file with its name.
package snapshot_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestMain(m *testing.M) {
	sqlitetest.RegisterRemoving() // the driver gives functions to the connections that are opened later
	testenv.Main(m)
}

// A store is what every database has.
type store interface {
	snapshot.Store
	lock.Raiser
}

// A pair opens two stores that join, with tables of their own.
type pair = func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store)

// A database makes the stores that the cases use. A field is nil where there is no such case.
type database struct {
	// open returns an empty store that remembers for so long.
	open func(tb testing.TB, remember time.Duration) store
	// expires says that the database forgets by itself, so that there is no Sweep.
	expires bool
	// joins are the ways to a database in which two stores join. strange are checkpoint stores that runs does not join.
	joins   map[string]func(t *testing.T) pair
	strange func(t *testing.T) (runs snapshot.Joiner, strange map[string]checkpoint.Store)

	// spoil returns a function that returns an empty store each time. Damage does what damage says.
	spoil    func(t *testing.T, damage string) func(t *testing.T) spoiled
	spoils   []spoil
	outgrows string // a damage

	// unreachable are stores whose server cannot be reached.
	unreachable func(t *testing.T) map[string]snapshot.Store
	// failsWhole checks that a call changes nothing if its statement of this event fails. See pgtest.FailsWhole.
	failsWhole func(t *testing.T, event string, do func(*caller, context.Context) error)
	// event is the field of a failing that is about the database.
	event func(f failing) []string
}

var databases = map[string]database{
	"memory": {
		open: func(_ testing.TB, remember time.Duration) store { return &snapshot.Memory{Remember: remember} },
		joins: map[string]func(*testing.T) pair{"memory": func(*testing.T) pair {
			return func(*testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
				return new(snapshot.Memory), new(checkpoint.Memory)
			}
		}},
		strange: func(*testing.T) (snapshot.Joiner, map[string]checkpoint.Store) {
			wrapped := struct{ checkpoint.Store }{new(checkpoint.Memory)}
			return new(snapshot.Memory), map[string]checkpoint.Store{"what is wrapped": wrapped}
		},
	},
	"postgres":  onPostgres(false),
	"functions": onPostgres(true),
	"sqlite": {
		open: func(tb testing.TB, remember time.Duration) store {
			return newLite(tb, sqlitesnapshot.Options{Remember: remember})
		},
		joins: map[string]func(*testing.T) pair{"pool": joinLite(0), "one connection": joinLite(1)},
		strange: func(t *testing.T) (snapshot.Joiner, map[string]checkpoint.Store) {
			return newLite(t, sqlitesnapshot.Options{}), map[string]checkpoint.Store{
				"another file": liteTurns(t, sqlitetest.Open(t, testenv.SQLite(t))), "memory": new(checkpoint.Memory),
			}
		},
		spoil:    spoilLite,
		spoils:   spoilsOfSQLite,
		outgrows: "payload = '[' || replace(hex(zeroblob(400000)), '00', '{},') || '{}]'",
		failsWhole: func(t *testing.T, event string, do func(*caller, context.Context) error) {
			db, on := liteCaller(t)
			call := func(ctx context.Context) error { return do(on, ctx) }
			sqlitetest.FailsWhole(t, db, event, call, tables...)
		},
		event: func(f failing) []string { return f.sqlite },
	},
	"redis": {
		open: func(tb testing.TB, remember time.Duration) store {
			client, prefix := testenv.Redis(tb)
			return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix, Remember: remember})
		},
		expires:     true,
		spoil:       spoilRedis,
		spoils:      spoilsOfRedis(),
		outgrows:    "HSET payload [" + strings.Repeat(`{},`, 400_000) + "{}]",
		unreachable: unreachableRedis,
	},
}

// each runs a case over all databases that have it.
func each(t *testing.T, has func(database) bool, test func(t *testing.T, d database)) {
	t.Helper()
	t.Parallel()
	for name, d := range databases {
		if has(d) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, d)
			})
		}
	}
}

func all(database) bool         { return true }
func sweeps(d database) bool    { return !d.expires }
func joins(d database) bool     { return d.joins != nil }
func isSpoiled(d database) bool { return d.spoil != nil }

func (d database) newStore(t *testing.T) snapshot.Store { return d.open(t, 0) }

// A spoiled store damages runs by hand.
type spoiled struct {
	store
	damage func(ctx context.Context, k snapshot.Key) error
}

func (s spoiled) Damage(ctx context.Context, k snapshot.Key) error { return s.damage(ctx, k) }

func onPostgres(functions bool) database {
	d := database{
		open: func(tb testing.TB, remember time.Duration) store {
			return newPG(tb, pgsnapshot.Options{Remember: remember, Functions: functions})
		},
		joins: make(map[string]func(*testing.T) pair),
		strange: func(t *testing.T) (snapshot.Joiner, map[string]checkpoint.Store) {
			p, other := pgtest.EmptyPool(t), pgtest.EmptyPool(t)
			return pgsnapshot.New(p, &pgsnapshot.Options{Functions: functions}), map[string]checkpoint.Store{
				"another pool": pgTurns(t, other, "t_", functions), "memory": new(checkpoint.Memory),
				"what is wrapped": struct{ checkpoint.Store }{pgTurns(t, p, "t_", functions)},
				// A function cannot be part of a statement, nor a statement of a function.
				"the other kind": pgTurns(t, p, "o_", !functions),
			}
		},
		spoil: func(t *testing.T, damage string) func(t *testing.T) spoiled {
			p := pgtest.EmptyPool(t)
			s := spoiledPG(pgOn(t, p, pgsnapshot.Options{Functions: functions}), p, damage)
			return func(t *testing.T) spoiled {
				pgtest.Clear(t, p)
				return s
			}
		},
		spoils:   spoilsOfPostgres,
		outgrows: "payload = (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(0, 400000))",
		failsWhole: func(t *testing.T, event string, do func(*caller, context.Context) error) {
			p := pgtest.EmptyPool(t)
			on := newCaller(t, pgOn(t, p, pgsnapshot.Options{Remember: time.Microsecond, Functions: functions}),
				pgTurns(t, p, "", functions))
			call := func(ctx context.Context) error { return do(on, ctx) }
			pgtest.FailsWhole(t, p, event, call, tables...)
		},
		event: func(f failing) []string { return f.postgres },
	}
	configure, schema := pgtest.BehindSerializable, "current_schema()"
	if !functions {
		d.unreachable, schema = unreachablePostgres, "''"
		configure = map[string]func(*pgxpool.Config){
			"pool":            func(*pgxpool.Config) {},
			"one connection":  pgtest.OneConnection,
			"simple protocol": pgtest.Behind["simple protocol"],
			"serializable":    pgtest.Isolation("serializable"),
		}
	}
	for name, c := range configure {
		d.joins[name] = func(t *testing.T) pair { return joinPG(t, pgtest.EmptyPool(t, c), schema, functions) }
	}
	return d
}

// joinPG opens stores on one pool. If the stores call functions, they have different prefixes, and then both have to be
// qualified if one is.
func joinPG(t *testing.T, p *pgxpool.Pool, schema string, functions bool) pair {
	n, prefix := 0, pgtest.Value[string](t, p, "SELECT coalesce(nullif("+schema+", '') || '.', '')")
	return func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
		n++
		runs := pgOn(t, p, pgsnapshot.Options{Prefix: fmt.Sprintf("%sr%d_", prefix, n), Functions: functions})
		return runs, pgTurns(t, p, fmt.Sprintf("t%d_", n), functions)
	}
}

const ofSession = " WHERE orchestrator = $1 AND session = $2"

// spoiledPG returns a store whose runs are damaged by a change of their columns.
func spoiledPG(s store, p *pgxpool.Pool, damage string) spoiled {
	return spoiled{s, func(ctx context.Context, k snapshot.Key) error {
		_, err := p.Exec(ctx, "UPDATE holdfast_runs SET "+damage+ofSession, k.Orchestrator, k.Session)
		return err
	}}
}

// newPG returns a store in a schema of its own.
func newPG(tb testing.TB, o pgsnapshot.Options) *pgsnapshot.Store {
	tb.Helper()
	return pgsnapshot.New(pgtest.PoolWith(tb, pgsnapshot.New(nil, &o).Schema()), &o)
}

// pgOn creates the tables of a store.
func pgOn(tb testing.TB, p *pgxpool.Pool, o pgsnapshot.Options) *pgsnapshot.Store {
	tb.Helper()
	return pgtest.Create(tb, p, pgsnapshot.New(p, &o))
}

func pgTurns(tb testing.TB, p *pgxpool.Pool, prefix string, functions bool) *pgcheckpoint.Store {
	tb.Helper()
	o := pgcheckpoint.Options{Prefix: prefix, Functions: functions}
	return pgtest.Create(tb, p, pgcheckpoint.New(p, &o))
}

// numbered returns a maker of stores on one pool, each with its own tables.
func numbered(p *pgxpool.Pool, prefix string, o pgsnapshot.Options) func(*testing.T) snapshot.Store {
	n := 0
	return func(t *testing.T) snapshot.Store {
		n++
		o.Prefix = fmt.Sprintf("%s%d_", prefix, n)
		return pgOn(t, p, o)
	}
}

func unreachablePostgres(t *testing.T) map[string]snapshot.Store {
	stores := make(map[string]snapshot.Store)
	for name, c := range pgtest.Unreachable {
		stores[name] = pgsnapshot.New(pgtest.PoolOn(t, c.URL, c.Configure), nil)
	}
	return stores
}

func newLite(tb testing.TB, o sqlitesnapshot.Options) *sqlitesnapshot.Store {
	tb.Helper()
	return liteOn(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

// liteOn creates the tables of a store, twice.
func liteOn(tb testing.TB, db *sql.DB, o sqlitesnapshot.Options) *sqlitesnapshot.Store {
	tb.Helper()
	s := sqlitesnapshot.New(db, &o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}

func liteTurns(tb testing.TB, db *sql.DB) *sqlitecheckpoint.Store {
	tb.Helper()
	turns := sqlitecheckpoint.New(db, nil)
	sqlitetest.Exec(tb, db, turns.Schema())
	return turns
}

func joinLite(connections int) func(*testing.T) pair {
	return func(*testing.T) pair {
		return func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(connections)
			return liteOn(t, db, sqlitesnapshot.Options{}), liteTurns(t, db)
		}
	}
}

// loosely makes a table that takes any value.
const loosely = `DROP INDEX IF EXISTS holdfast_runs_inflight;
	ALTER TABLE holdfast_runs RENAME TO strict; CREATE TABLE holdfast_runs AS SELECT * FROM strict; DROP TABLE strict;
	CREATE UNIQUE INDEX loose ON holdfast_runs (orchestrator, session);
	CREATE INDEX holdfast_runs_inflight ON holdfast_runs (orchestrator, session) WHERE deleted_at IS NULL;
	CREATE INDEX holdfast_runs_drain ON holdfast_runs (orchestrator, session)
		WHERE deleted_at IS NULL AND status IS NOT 'suspended' AND status IS NOT 'parked';`

// spoilLite damages runs past the checks of the tables.
func spoilLite(_ *testing.T, damage string) func(t *testing.T) spoiled {
	set, isLoose := strings.CutPrefix(damage, "loosely ")
	return func(t *testing.T) spoiled {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		return spoiled{liteOn(t, db, sqlitesnapshot.Options{}), func(ctx context.Context, k snapshot.Key) error {
			text := fmt.Sprintf("UPDATE holdfast_runs SET %s WHERE session = '%s'", set, k.Session)
			if isLoose {
				text = loosely + text
			}
			return unchecked(ctx, db, text)
		}}
	}
}

// unchecked executes statements on a connection that does not check what is written.
func unchecked(ctx context.Context, db *sql.DB, statements string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, text := range []string{
		"PRAGMA ignore_check_constraints = on; PRAGMA legacy_alter_table = on", statements,
		"PRAGMA ignore_check_constraints = off",
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// newRedis returns a store with a prefix of its own, and what is needed to look at its keys.
func newRedis(t *testing.T) (*redissnapshot.Store, *redis.Client, string) {
	client, prefix := testenv.Redis(t)
	return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}), client, prefix
}

// numberedRedis returns a maker of stores on one server, each with its own keys.
func numberedRedis() func(client redis.UniversalClient) *redissnapshot.Store {
	n := 0
	return func(client redis.UniversalClient) *redissnapshot.Store {
		n++
		return redissnapshot.New(client, &redissnapshot.Options{Prefix: fmt.Sprintf("holdfast:c%d:", n)})
	}
}

func spoilRedis(_ *testing.T, damage string) func(t *testing.T) spoiled {
	return func(t *testing.T) spoiled {
		s, client, prefix := newRedis(t)
		return spoiled{s, func(ctx context.Context, k snapshot.Key) error {
			return onKey(ctx, client, prefix+"{"+k.Orchestrator+"/"+k.Session+"}:run", damage)
		}}
	}
}

// onKey sends a command, with the key after its first word.
func onKey(ctx context.Context, client *redis.Client, key, command string) error {
	var args []any
	for i, word := range strings.Split(command, " ") {
		if args = append(args, word); i == 0 {
			args = append(args, key)
		}
	}
	return client.Do(ctx, args...).Err()
}

func unreachableRedis(t *testing.T) map[string]snapshot.Store {
	stores := make(map[string]snapshot.Store)
	for name, o := range redistest.Unreachable {
		client := redis.NewClient(&o)
		t.Cleanup(func() { client.Close() })
		stores[name] = redissnapshot.New(client, nil)
	}
	return stores
}
