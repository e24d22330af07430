// Package checkpoint_test runs the cases of the contract of package checkpoint over all databases. What one database
// alone has is in a file with its name.
package checkpoint_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
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
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

func TestMain(m *testing.M) {
	sqlitetest.RegisterRemoving() // the driver gives functions to the connections that are opened later
	testenv.Main(m)
}

// A store is what a database has, beside beats and watches.
type store interface {
	checkpoint.Store
	checkpoint.Sweeper
	checkpoint.Inspector
	lock.Raiser
}

// A database makes the stores that the cases use. A field is nil where there is no such case.
type database struct {
	// open returns an empty store, whose sessions are idle after ttl. Sessions without a turn are idle after unsettled.
	open func(tb testing.TB, ttl, unsettled time.Duration) store
	// sweeps says that Sweep alone retires idle sessions. Elsewhere they expire.
	sweeps bool
	// loaded is how many leases are renewed under load.
	loaded int

	// spoil returns a function that returns an empty store each time, whose sessions are damaged by a spoil.
	spoil     func(t *testing.T, s spoil) func(*testing.T) checkpointtest.DamagingStore
	spoils    []spoil
	outgrows  string // turn of a spoil
	malformed []malformed
	// setTurn makes a number the newest turn of the head of all sessions.
	setTurn string

	away map[string]part
	// sweepsAround says that a sweep retires the sessions of the other parts.
	sweepsAround bool

	unreachable map[string]func(t *testing.T) checkpoint.Store
	refusals    map[string]refusal
	fails       *fails
}

// A spoil is one kind of damage: of a head, and of a turn.
type spoil struct{ head, turn string }

var databases = map[string]database{
	"memory": {
		open: func(_ testing.TB, ttl, unsettled time.Duration) store {
			return &checkpoint.Memory{TTL: ttl, Unsettled: unsettled}
		},
		sweeps: true, loaded: 500,
	},
	"postgres":  onPostgres(pgcheckpoint.Options{}),
	"functions": onPostgres(withFunctions),
	"sqlite": {
		open: func(tb testing.TB, ttl, unsettled time.Duration) store {
			return newLite(tb, sqlitecheckpoint.Options{TTL: ttl, Unsettled: unsettled})
		},
		sweeps: true, loaded: 500,
		spoil: func(_ *testing.T, s spoil) func(*testing.T) checkpointtest.DamagingStore {
			return func(t *testing.T) checkpointtest.DamagingStore {
				l := newLite(t, sqlitecheckpoint.Options{})
				l.spoil = s
				return l
			}
		},
		spoils: []spoil{
			{"born = 0", "state = '{'"},
			{"summarized = -1", "payload = '['"},
			{"failed = -1", "route = 'x'"},
			{"summarized = 99", "run_id = ''"},
		},
		outgrows:  "state = '[' || replace(hex(zeroblob(400000)), '00', '{},') || '{}]'",
		malformed: malformedInSQLite,
		setTurn:   "UPDATE holdfast_sessions SET turn = %d",
		away:      rowsAway,
		fails:     failsOnSQLite,
	},
	"redis": {
		open: func(tb testing.TB, ttl, unsettled time.Duration) store {
			return newRedis(tb, redischeckpoint.Options{TTL: ttl, Unsettled: unsettled})
		},
		loaded: 500,
		spoil: func(_ *testing.T, s spoil) func(*testing.T) checkpointtest.DamagingStore {
			return func(t *testing.T) checkpointtest.DamagingStore {
				r := newRedis(t, redischeckpoint.Options{})
				r.spoil = s
				return r
			}
		},
		spoils: []spoil{
			{"HDEL nonce", "HDEL #"},
			{"HDEL epoch", "HDEL #:at"},
			{"HSET turn x", "HDEL #:state"},
			{"HDEL born", "HDEL #:run"},
			{"HSET summarized x", "HSET #:state {"},
			{"HSET first -inf", "HDEL #:run"},
			{"HSET cleared " + strings.Repeat("9", 400), "HDEL #:run"},
			{"HSET turn 0.5", "HDEL #:run"},
			{"HSET epoch x", "HSET #:at x"},
			{"HSET born x", "HSET # {"},
			{"HSET turn ", `HSET # {"layout":2}`}, // the details of another store
			{"SET x", "HDEL #"},                   // which is no hash
		},
		outgrows:  "HSET #:state [" + strings.Repeat(`{},`, 400_000) + "{}]",
		malformed: malformedInRedis(),
		setTurn:   "HSET turn %d",
		away:      nodesAway, sweepsAround: true,
		unreachable: unreachableRedis(),
		refusals:    refusalsOfRedis(),
	},
}

// each runs a case over all databases that have it.
func each(t *testing.T, has func(database) bool, run func(t *testing.T, d database)) {
	t.Helper()
	t.Parallel()
	for name, d := range databases {
		if has(d) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, d)
			})
		}
	}
}

func all(database) bool { return true }

func sweeps(d database) bool { return d.sweeps }

// newStore opens stores whose sessions stay.
func (d database) newStore(t *testing.T) checkpoint.Store { return d.open(t, 0, 0) }

// A pg is a store on PostgreSQL.
type pg struct {
	*pgcheckpoint.Store
	pool  *pgxpool.Pool
	spoil spoil
}

var withFunctions = pgcheckpoint.Options{Functions: true}

// byEither holds the options of stores that send statements, and of stores that call functions.
var byEither = map[string]pgcheckpoint.Options{"statements": {}, "functions": withFunctions}

// newPG returns a store in a schema of its own.
func newPG(tb testing.TB, o pgcheckpoint.Options, configure ...func(*pgxpool.Config)) pg {
	tb.Helper()
	p := pgtest.PoolWith(tb, pgcheckpoint.New(nil, &o).Schema(), configure...)
	return pg{Store: pgcheckpoint.New(p, &o), pool: p}
}

// pgOn creates the tables of a store.
func pgOn(tb testing.TB, p *pgxpool.Pool, o pgcheckpoint.Options) pg {
	tb.Helper()
	return pg{Store: pgtest.Create(tb, p, pgcheckpoint.New(p, &o)), pool: p}
}

// exec executes a statement with placeholders for the names of tables.
func (s pg) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	pgtest.Exec(tb, s.pool, s.Fill(sql), args...)
}

func onPostgres(o pgcheckpoint.Options) database {
	d := database{
		open: func(tb testing.TB, ttl, unsettled time.Duration) store {
			return newPG(tb, pgcheckpoint.Options{TTL: ttl, Unsettled: unsettled, Functions: o.Functions})
		},
		sweeps: true, loaded: 500,
		spoil: func(t *testing.T, sp spoil) func(*testing.T) checkpointtest.DamagingStore {
			s := newPG(t, o)
			s.spoil = sp
			return func(t *testing.T) checkpointtest.DamagingStore {
				pgtest.Clear(t, s.pool)
				return s
			}
		},
		spoils: []spoil{
			{"born = 0", "run_id = ''"},
			{"summarized = -1", "run_id = ''"},
			{"failed = -1", "run_id = ''"},
			{"summarized = 99", "run_id = repeat('x', 600)"},
			{"born = 0", "saved_at = 'infinity'"},
			{"born = 0", "saved_at = '-infinity'"},
			{"born = 0", "route = ARRAY[NULL]::text[]"},
			{"born = 0", "route = ARRAY['a', NULL]"},
			{"born = 0", "route = ARRAY[['a', 'b'], ['c', 'd']]"},
		},
		outgrows:     "state = (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(0, 400000))",
		malformed:    []malformed{{"DELETE FROM {turns} WHERE turn = 1", "", "Claim", ""}},
		setTurn:      "UPDATE {sessions} SET turn = %d",
		away:         workerAway(o),
		sweepsAround: o.Functions,
		fails:        failsOnPostgres(o),
	}
	if o.Functions {
		d.loaded = 200
		return d
	}
	d.unreachable = unreachablePostgres()
	d.refusals = map[string]refusal{"read-only": readOnlyPostgres}
	return d
}

func (s pg) by(ctx context.Context, sql string, args ...any) error {
	_, err := s.pool.Exec(ctx, s.Fill(sql), args...)
	return err
}

const ofSession = " WHERE orchestrator = $1 AND session = $2"

func (s pg) DamageHead(ctx context.Context, k checkpoint.Key) error {
	return s.by(ctx, "UPDATE {sessions} SET "+s.spoil.head+ofSession, k.Orchestrator, k.Session)
}

func (s pg) LoseHead(ctx context.Context, k checkpoint.Key) error {
	return s.by(ctx, "DELETE FROM {sessions}"+ofSession, k.Orchestrator, k.Session)
}

func (s pg) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	return s.by(ctx, "UPDATE {turns} SET "+s.spoil.turn+ofSession+" AND turn = $3", k.Orchestrator, k.Session, turn)
}

func (s pg) Spoil(ctx context.Context, what string) error { return s.by(ctx, what) }

// A lite is a store on SQLite.
type lite struct {
	*sqlitecheckpoint.Store
	db    *sql.DB
	spoil spoil
}

func newLite(tb testing.TB, o sqlitecheckpoint.Options) lite {
	tb.Helper()
	return liteOn(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

// liteOn creates the tables of a store, twice.
func liteOn(tb testing.TB, db *sql.DB, o sqlitecheckpoint.Options) lite {
	tb.Helper()
	s := sqlitecheckpoint.New(db, &o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return lite{Store: s, db: db}
}

// Spoil executes statements past the checks of the tables.
func (s lite) Spoil(ctx context.Context, statements string) error {
	conn, err := s.db.Conn(ctx)
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

func (s lite) DamageHead(ctx context.Context, k checkpoint.Key) error {
	return s.Spoil(ctx, fmt.Sprintf("UPDATE holdfast_sessions SET %s WHERE session = '%s'", s.spoil.head, k.Session))
}

func (s lite) LoseHead(ctx context.Context, k checkpoint.Key) error {
	return s.Spoil(ctx, fmt.Sprintf("DELETE FROM holdfast_sessions WHERE session = '%s'", k.Session))
}

func (s lite) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	return s.Spoil(ctx, fmt.Sprintf("UPDATE holdfast_turns SET %s WHERE session = '%s' AND turn = %d",
		s.spoil.turn, k.Session, turn))
}

// A rd is a store on Redis.
type rd struct {
	*redischeckpoint.Store
	client redis.UniversalClient
	prefix string
	spoil  spoil
}

func newRedis(tb testing.TB, o redischeckpoint.Options) rd {
	tb.Helper()
	client, prefix := testenv.Redis(tb)
	return redisOn(client, prefix, o)
}

func redisOn(client redis.UniversalClient, prefix string, o redischeckpoint.Options) rd {
	o.Prefix = prefix
	return rd{Store: redischeckpoint.New(client, &o), client: client, prefix: prefix}
}

// at returns the key of a session of the test's orchestrator.
func (s rd) at(session string) string { return s.prefix + "{bot/" + session + "}:session" }

// hurt sends a command about a session. # in it is the number of a turn.
func (s rd) hurt(ctx context.Context, session, command string, turn int) error {
	var args []any
	for i, word := range strings.Split(command, " ") {
		args = append(args, strings.Replace(word, "#", strconv.Itoa(turn), 1))
		if i == 0 {
			args = append(args, s.at(session))
		}
	}
	return s.client.Do(ctx, args...).Err()
}

// Spoil sends a command about session a.
func (s rd) Spoil(ctx context.Context, command string) error { return s.hurt(ctx, "a", command, 0) }

func (s rd) DamageHead(ctx context.Context, k checkpoint.Key) error {
	return s.hurt(ctx, k.Session, s.spoil.head, 0)
}

func (s rd) LoseHead(ctx context.Context, k checkpoint.Key) error {
	fields, err := s.client.HKeys(ctx, s.at(k.Session)).Result()
	if err != nil {
		return err
	}
	head := slices.DeleteFunc(fields, func(f string) bool {
		return strings.Contains(f, ":") || f[0] >= '0' && f[0] <= '9'
	})
	return s.client.HDel(ctx, s.at(k.Session), head...).Err()
}

func (s rd) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	return s.hurt(ctx, k.Session, s.spoil.turn, turn)
}
