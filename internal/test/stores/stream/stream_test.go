// Package stream_test runs the cases of a stream store over all databases. What one database alone has is in a test
// with its name.
package stream_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// options are those of every store.
type options struct {
	prefix string
	keep   int
	ttl    time.Duration
}

// A place is where the stores of one test keep their chunks.
type place struct {
	// open returns a store. another returns one as in another process: with connections of its own.
	open, another func(t *testing.T, o options) stream.Store

	// expire makes all sessions too old. size is how much is stored, which is most or less if 10 chunks are kept of one
	// session.
	expire func(t *testing.T)
	size   func(t *testing.T) int
	most   int

	// exec executes a statement on the tables, and count reads a number.
	exec  func(t *testing.T, sql string)
	count func(t *testing.T, sql string) int

	spoils map[string]spoil
}

// A spoil makes of session k what no store has written. head says that its head is damaged.
type spoil struct {
	do   func(t *testing.T, k string)
	head bool
}

// A database has places. shared says that processes share what is there, and tables that it is in tables.
type database struct {
	open           func(t *testing.T) place
	shared, tables bool
}

var databases = map[string]database{
	"memory": {open: func(*testing.T) place {
		return place{open: func(_ *testing.T, o options) stream.Store {
			return &stream.Memory{Keep: o.keep, TTL: o.ttl}
		}}
	}},
	"postgres": {postgresPlace, true, true},
	"sqlite":   {sqlitePlace, true, true},
	"redis":    {redisPlace, true, false},
}

// each runs a case at a place of each database that has what the case needs.
func each(t *testing.T, has func(d database) bool, test func(t *testing.T, p place)) {
	t.Parallel()
	for name, d := range databases {
		if has(d) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, d.open(t))
			})
		}
	}
}

func all(database) bool { return true }

func shared(d database) bool { return d.shared }

func tables(d database) bool { return d.tables }

func postgresPlace(t *testing.T) place {
	p := pgtest.EmptyPool(t)
	on := func(p *pgxpool.Pool) func(t *testing.T, o options) stream.Store {
		return func(t *testing.T, o options) stream.Store {
			return pgtest.Create(t, p, pgstream.New(p, &pgstream.Options{Prefix: o.prefix, Keep: o.keep, TTL: o.ttl}))
		}
	}
	return inTables(place{
		open: on(p), another: on(pgtest.PoolOn(t, p.Config().ConnString())),
		exec:  func(t *testing.T, sql string) { pgtest.Exec(t, p, sql) },
		count: func(t *testing.T, sql string) int { return pgtest.Value[int](t, p, sql) },
	}, "at - interval '1 hour'", "[1]", "7")
}

func sqlitePlace(t *testing.T) place {
	dsn := testenv.SQLite(t)
	on := func(db *sql.DB) func(t *testing.T, o options) stream.Store {
		return func(t *testing.T, o options) stream.Store { return onSQLite(t, db, o) }
	}
	db := sqlitetest.Open(t, dsn)
	return inTables(place{
		open: on(db), another: on(sqlitetest.Open(t, dsn)),
		exec: func(t *testing.T, text string) { sqlitetest.Exec(t, db, text) },
		count: func(t *testing.T, text string) (n int) {
			check(t, db.QueryRowContext(t.Context(), text).Scan(&n))
			return n
		},
	}, "at - 3600000001", "[1]", "7", "{")
}

func onSQLite(t *testing.T, db *sql.DB, o options) *sqlitestream.Store {
	s := sqlitestream.New(db, &sqlitestream.Options{Prefix: o.prefix, Keep: o.keep, TTL: o.ttl})
	sqlitetest.Exec(t, db, s.Schema())
	return s
}

// inTables completes a place that has tables. hourAgo is the time of the last Append, an hour before. odd are texts in
// place of chunks.
func inTables(p place, hourAgo string, odd ...string) place {
	p.expire = func(t *testing.T) { p.exec(t, "UPDATE holdfast_streams SET at = "+hourAgo) }
	p.size = func(t *testing.T) int {
		return p.count(t, "SELECT coalesce(sum(last - first + 1), 0) FROM holdfast_chunks")
	}
	p.most = 24
	p.spoils = make(map[string]spoil)
	for name, text := range map[string]string{
		"a row is lost":  "DELETE FROM holdfast_chunks WHERE last = 4",
		"numbers differ": "UPDATE holdfast_chunks SET first = first + 1 WHERE last = 4",
		"all are lost":   "DELETE FROM holdfast_chunks",
	} {
		p.spoils[name] = spoil{do: func(t *testing.T, _ string) { p.exec(t, text) }}
	}
	for _, text := range odd {
		p.spoils["chunks "+text] = spoil{do: func(t *testing.T, _ string) {
			p.exec(t, "UPDATE holdfast_chunks SET data = '"+text+"' WHERE last = 4")
		}}
	}
	return p
}

func redisPlace(t *testing.T) place {
	client, prefix := testenv.Redis(t)
	on := func(client redis.UniversalClient) func(t *testing.T, o options) stream.Store {
		return func(_ *testing.T, o options) stream.Store {
			return redisstream.New(client, &redisstream.Options{Prefix: prefix + o.prefix, Keep: o.keep, TTL: o.ttl})
		}
	}
	return place{
		open: on(client), another: on(redistest.Another(t, client)),
		expire: func(t *testing.T) {
			for _, key := range client.Keys(t.Context(), prefix+"*").Val() {
				check(t, client.PExpire(t.Context(), key, time.Millisecond).Err())
			}
			for len(client.Keys(t.Context(), prefix+"*").Val()) > 0 {
			}
		},
		size:   func(t *testing.T) int { return int(client.XLen(t.Context(), shown(prefix, "a")).Val()) },
		most:   8,
		spoils: redisSpoils(client, prefix),
	}
}

// shown is the key of a session.
func shown(prefix, session string) string { return prefix + "{bot/" + session + "}:shown" }

func redisSpoils(client *redis.Client, prefix string) map[string]spoil {
	add := func(t *testing.T, k, id string, values ...any) {
		check(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: shown(prefix, k), ID: id, Values: values}).Err())
	}
	head := func(t *testing.T, k, id, epoch string) {
		add(t, k, id, "epoch", epoch, "status", "ended", "run", "r", "start", "1", "first", "1", "calls", "")
	}
	lose := func(ids ...string) func(t *testing.T, k string) {
		return func(t *testing.T, k string) { check(t, client.XDel(t.Context(), shown(prefix, k), ids...).Err()) }
	}
	instead := func(values ...any) func(t *testing.T, k string) {
		return func(t *testing.T, k string) {
			check(t, client.Del(t.Context(), shown(prefix, k)).Err())
			add(t, k, "4-0", values...)
			head(t, k, "4-1", "1")
		}
	}
	return map[string]spoil{
		"another type": {func(t *testing.T, k string) {
			check(t, client.Set(t.Context(), shown(prefix, k), "x", 0).Err())
		}, true},
		"newest is no head":  {func(t *testing.T, k string) { add(t, k, "9-0", "a", "b") }, true},
		"epoch is no number": {func(t *testing.T, k string) { head(t, k, "9-1", "x") }, true},
		"an entry is lost":   {lose("4-0"), false},
		"all are lost":       {lose("2-0", "4-0", "6-0"), false},
		"no array":           {instead("from", "3", "run", "r", "data", "7"), false},
		"no chunks":          {instead("from", "3"), false},
	}
}

var onPostgres = pgtest.Kind[stream.Store]{
	New: func(db pgtest.DB, prefix string) stream.Store {
		o := &pgstream.Options{Prefix: prefix}
		if _, ok := db.(*pgxpool.Pool); !ok {
			o.Poll = 10 * time.Millisecond // because it cannot listen
		}
		return pgstream.New(db, o)
	},
	Suite: streamtest.Run, Violations: streamtest.Violations,
	Fill: func(t *testing.T, s stream.Store) { add(t, s, key("a"), 1, stream.Ended, 2) },
	Read: func(t *testing.T, s stream.Store) string {
		n, err := read(t.Context(), s, key("a"), 0)
		return fmt.Sprint(n, err)
	},
	Calls: calls, Writes: []string{"Append", "Sweep of one", "Delete"},
	Tables: []string{"streams", "chunks", "streams_sweep"}, Schema: stream.ErrSchema, Refused: stream.ErrRefused,
}

var onRedis = onRedisKeeping(0)

func onRedisKeeping(keep int) redistest.Kind[stream.Store] {
	return redistest.Kind[stream.Store]{
		New: func(client redis.UniversalClient, prefix string) stream.Store {
			return redisstream.New(client, &redisstream.Options{Prefix: prefix, Keep: keep})
		},
		Suite: streamtest.Run, Calls: calls,
		Tell: tell, Model: func() stream.Store { return &stream.Memory{Keep: keep} },
		User: "shows", Eviction: redisstore.ErrEviction,
	}
}

func key(session string) stream.Key { return stream.Key{Orchestrator: "bot", Session: session} }

func docs(n int) []json.RawMessage {
	all := make([]json.RawMessage, n)
	for i := range all {
		all[i] = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
	}
	return all
}

func add(t *testing.T, s stream.Store, k stream.Key, epoch int64, status stream.Status, n int) int64 {
	t.Helper()
	last, err := s.Append(t.Context(), k, "r-1", epoch, status, docs(n))
	check(t, err)
	return last
}

// read returns how many chunks come after seq.
func read(ctx context.Context, s stream.Store, k stream.Key, seq int64) (n int, err error) {
	for _, err := range s.Read(ctx, k, seq) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// calls calls every method and returns the errors by name.
func calls(ctx context.Context, s stream.Store) map[string]error {
	_, appended := s.Append(ctx, key("a"), "r-1", 1, stream.Ended, docs(1))
	_, _, _, last := s.Last(ctx, key("a"))
	_, chunks := read(ctx, s, key("a"), 0)
	_, starts := s.Starts(ctx, key("a"))
	errs := map[string]error{"Append": appended, "Last": last, "Read": chunks, "Starts": starts}
	if s, ok := s.(stream.Sweeper); ok {
		_, errs["Sweep"] = s.Sweep(ctx, 0)
		_, errs["Sweep of one"] = s.Sweep(ctx, 1)
	}
	errs["Delete"] = s.Delete(ctx, key("a"))
	return errs
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
